"""A corpus in the tokens of any Hugging Face model, for measures of models that were trained elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from diffattn.data.corpora import SPLITS, Corpus
from diffattn.data.tokenizer import pieces
from diffattn.errors import UserError

__all__ = ["EncodedCorpus"]


class EncodedCorpus:
    """What `PreparedData` is for our own tokenizers: `.tokens(split)`, encoded when first asked for and kept.

    Args:
        tokenizer: the model's own; fast, so that text that spells a special token stays text.
        corpus: the documents.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, corpus: Corpus) -> None:
        self.tokenizer = tokenizer
        self._corpus = corpus
        self._encoded: dict[str, np.ndarray] = {}

    @property
    def corpus(self) -> dict[str, Any]:
        """`Corpus.summary()`."""
        return self._corpus.summary()

    def tokens(self, split: str) -> np.ndarray:
        """The split's tokens: 1-d int64, the tokenizer's bos (else eos) before each document where it has one.

        Raises:
            UserError: there is no such split.
        """
        if split not in SPLITS:
            raise UserError(f"there is no split {split!r}: use train, validation or test")
        if split not in self._encoded:
            ids = [token for document in self._corpus.splits[split] for token in self._document(document)]
            self._encoded[split] = np.array(ids, dtype=np.int64)
        return self._encoded[split]

    def _document(self, document: str) -> list[int]:
        bos, eos = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        ids = [token for token in (bos, eos) if token is not None][:1]
        for piece in pieces(document):
            encoding = self.tokenizer(piece, add_special_tokens=False, split_special_tokens=True, verbose=False)
            ids += encoding["input_ids"]
        return ids
