"""Documents to token files, a batch at a time: a split is never a Python list as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from diffattn.data.corpora import SPLITS, Corpus
from diffattn.data.progress import delayed_progress
from diffattn.data.tokenizer import END_OF_TEXT, pieces

__all__ = ["encode_splits"]

_BATCH_CHARACTERS = 1 << 20


def encode_splits(
    corpus: Corpus, tokenizer: Tokenizer, dtype: type[np.unsignedinteger], folder: Path, progress: bool
) -> dict[str, int]:
    """Write `<split>.bin` for every split, `<|endoftext|>` before each document; return their lengths."""
    total = sum(len(document) for split in SPLITS for document in corpus.splits[split])
    encoder = Tokenizer.from_str(tokenizer.to_str())
    # A document that happens to spell the special token must not be cut in two by it.
    encoder.encode_special_tokens = True
    separator = tokenizer.token_to_id(END_OF_TEXT)
    assert separator is not None
    with delayed_progress("Encoding the corpus", total, enabled=progress) as advance:
        return {
            split: _encode_split(corpus.splits[split], encoder, separator, dtype, folder / f"{split}.bin", advance)
            for split in SPLITS
        }


def _encode_split(
    documents: Iterable[str],
    encoder: Tokenizer,
    separator: int,
    dtype: type[np.unsignedinteger],
    path: Path,
    advance: Callable[[float], None],
) -> int:
    """Append the tokens of batch after batch to the file; return how many there are."""
    count = 0
    with path.open("wb") as file:
        for batch in _batches(documents):
            encodings = encoder.encode_batch_fast([text for text, _ in batch], add_special_tokens=False)
            for (_, is_first), encoding in zip(batch, encodings, strict=True):
                ids = np.array(([separator] if is_first else []) + encoding.ids, dtype=dtype)
                file.write(ids.tobytes())
                count += len(ids)
            advance(sum(len(text) for text, _ in batch))
        file.flush()
        os.fsync(file.fileno())
    return count


def _batches(documents: Iterable[str]) -> Iterator[list[tuple[str, bool]]]:
    """Pieces of documents, each with whether it is its document's first, about a million characters a batch."""
    batch: list[tuple[str, bool]] = []
    size = 0
    for document in documents:
        for index, piece in enumerate(pieces(document)):
            batch.append((piece, index == 0))
            size += len(piece)
            if size >= _BATCH_CHARACTERS:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch
