"""Token files: each split encoded once, read memory-mapped, and never taken for complete when it is not."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

from diffattn.data.corpora import SPLITS, Corpus
from diffattn.data.encoding import encode_splits
from diffattn.data.progress import delayed_progress
from diffattn.data.tokenizer import END_OF_TEXT, pieces, train_tokenizer, wrap
from diffattn.errors import UserError

__all__ = ["PreparedData", "TokenBlocks", "prepare"]

_FORMAT = 1
_MANIFEST = "data.json"
_TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class PreparedData:
    """A corpus as tokens.

    Attributes:
        tokenizer: with one special token, `<|endoftext|>`, as eos, bos and pad; saves with `save_pretrained`.
        folder: where the token files lie.
        vocab_size: number of tokens, the special one included; less than asked for where the corpus is small.
        corpus: `Corpus.summary()`, with "tokens" added to each split.
    """

    tokenizer: PreTrainedTokenizerFast
    folder: Path
    vocab_size: int
    corpus: dict[str, Any]

    def tokens(self, split: str) -> np.memmap:
        """The split's tokens, `<|endoftext|>` before each document: 1-d, uint16 or uint32, read-only.

        Raises:
            UserError: there is no such split.
        """
        if split not in SPLITS:
            raise UserError(f"there is no split {split!r}: use train, validation or test")
        return np.memmap(self.folder / f"{split}.bin", dtype=_dtype(self.vocab_size), mode="r")


class TokenBlocks(Dataset[dict[str, torch.Tensor]]):
    """A token stream cut into blocks of one context, end to end; an item reads its own block from the file.

    Args:
        tokens: 1-d integers, memory-mapped or not.
        context: tokens in a block; what remains at the end of the stream is left out.

    Items are {"input_ids", "labels"}, both int64 `[context]` and equal: the model shifts the labels.

    Raises:
        UserError: the stream is shorter than one context.
    """

    def __init__(self, tokens: np.ndarray, context: int) -> None:
        if context < 1:
            raise ValueError(f"context must be at least 1, not {context}")
        if len(tokens) < context:
            raise UserError(
                f"the corpus has {len(tokens):,} tokens, less than one context of {context:,}: "
                "give more text or a smaller context"
            )
        self.tokens = tokens
        self.context = context

    def __len__(self) -> int:
        return len(self.tokens) // self.context

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        start = range(len(self))[index] * self.context
        block = torch.from_numpy(self.tokens[start : start + self.context].astype(np.int64))
        return {"input_ids": block, "labels": block.clone()}


def prepare(
    corpus: Corpus,
    *,
    vocab_size: int,
    folder: Path,
    progress: bool = True,
    tokenizer: PreTrainedTokenizerFast | None = None,
) -> PreparedData:
    """Train a tokenizer on the train split alone and encode every split, or take what an earlier call made.

    Args:
        corpus: the text.
        vocab_size: tokens to train; at least 257. Not used where a tokenizer is given.
        folder: where prepared corpora are kept, each in a folder named by corpus, vocabulary and versions.
        progress: show a bar where it takes longer than two seconds.
        tokenizer: a model's own, made by an earlier call, to encode with instead of training one.

    Raises:
        UserError: the vocabulary is too small, the tokenizer not one of ours, or the folder not writable.
    """
    if tokenizer is not None and tokenizer.bos_token != END_OF_TEXT:
        raise UserError(f"the tokenizer has no {END_OF_TEXT}: use the one that diffattn saved with the model")
    target = Path(folder) / _key(corpus, vocab_size, tokenizer)
    if not _is_complete(target):
        _build(corpus, vocab_size, tokenizer, target, progress)
    return _open(corpus, target)


def _open(corpus: Corpus, folder: Path) -> PreparedData:
    manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    summary = corpus.summary()
    for split in SPLITS:
        summary["splits"][split]["tokens"] = manifest["tokens"][split]
    tokenizer = wrap(tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER)))
    return PreparedData(tokenizer, folder, manifest["vocab_size"], summary)


def _build(
    corpus: Corpus, vocab_size: int, given: PreTrainedTokenizerFast | None, target: Path, progress: bool
) -> None:
    """Write everything beside the target and rename it in one step, so that the target is whole or absent."""
    temporary = _temporary_folder(target)
    try:
        trained = _train(corpus, vocab_size, progress) if given is None else given.backend_tokenizer
        trained.save(str(temporary / _TOKENIZER))
        size = trained.get_vocab_size(with_added_tokens=True)
        tokens = encode_splits(corpus, trained, _dtype(size), temporary, progress)
        _write_manifest(temporary, {"format": _FORMAT, "vocab_size": size, "tokens": tokens})
        _move(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _temporary_folder(target: Path) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".unfinished-", dir=target.parent))
    except OSError as error:
        raise UserError(f"the folder {target.parent} cannot be written ({error.strerror}): give another") from error


def _train(corpus: Corpus, vocab_size: int, progress: bool) -> tokenizers.Tokenizer:
    with delayed_progress("Training the tokenizer", None, enabled=progress):
        return train_tokenizer(chain.from_iterable(map(pieces, corpus.splits["train"])), vocab_size)


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    manifest["files"] = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    with (folder / _MANIFEST).open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _move(temporary: Path, target: Path) -> None:
    if target.exists() and not _is_complete(target):
        shutil.rmtree(target)
    try:
        temporary.rename(target)
    except OSError:
        # Another process was faster: its work is as good as ours.
        if not _is_complete(target):
            raise


def _is_complete(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        sizes: dict[str, int] = manifest["files"]
        written = all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return written and sizes.keys() >= {_TOKENIZER, *(f"{split}.bin" for split in SPLITS)}


def _key(corpus: Corpus, vocab_size: int, tokenizer: PreTrainedTokenizerFast | None) -> str:
    vocabulary = str(vocab_size) if tokenizer is None else tokenizer.backend_tokenizer.to_str()
    parts = [str(_FORMAT), tokenizers.__version__, corpus.sha256, vocabulary]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _dtype(vocab_size: int) -> type[np.unsignedinteger]:
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32
