"""A corpus: the documents of a train, a validation and a test split, with a hash that names this text.

`load_corpus` knows the standard library's source (always there), WikiText-2 and the user's own files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from diffattn.data import stdlib, text_files, wikitext
from diffattn.errors import UserError

__all__ = ["SPLITS", "Corpus", "count_words", "load_corpus"]

SPLITS = ("train", "validation", "test")


def count_words(text: str) -> int:
    """Words of a text: whitespace-separated words, plus one for each newline (WikiText's `<eos>`)."""
    return len(text.split()) + text.count("\n")


@dataclass(frozen=True)
class Corpus:
    """The text of three splits; nothing of it is changed after loading.

    Attributes:
        name: what to call it in a report; never a whole path.
        splits: the documents of "train", "validation" and "test", in a fixed order.

    Raises:
        UserError: a split is missing or holds no text.
    """

    name: str
    splits: dict[str, list[str]]

    def __post_init__(self) -> None:
        for split in SPLITS:
            if not any(document.strip() for document in self.splits.get(split, ())):
                raise UserError(
                    f"the {split} split of the corpus {self.name} holds no text: give a corpus with more in it"
                )

    @cached_property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of all splits: their names, their documents and where each document ends."""
        return _hash_fields(
            field for split in SPLITS for field in (split, str(len(self.splits[split])), *self.splits[split])
        )

    def summary(self) -> dict[str, Any]:
        """What a results file says of the corpus: its name, hash and, for each split, counts and a hash.

        `bytes` are UTF-8; `words` are whitespace words plus newlines; a split's `sha256` is that of its
        documents joined, so that for a file it is the file's own.
        """
        splits = {split: _split_summary(self.splits[split]) for split in SPLITS}
        return {"name": self.name, "sha256": self.sha256, "splits": splits}


def load_corpus(source: str | Path) -> Corpus:
    """Load a corpus by name or from files.

    Args:
        source: "stdlib" (the source text of the running Python's standard library, without its tests),
            "wikitext-2" (by Hugging Face `datasets`: downloaded once, then from its cache), or the path of a
            text file (cut into 90 % train, 5 % validation, 5 % test) or of a folder with `train`, `valid` and
            `test`, each as `.txt` or `.txt.gz`. A path that looks like a name is written `./stdlib`.

    Raises:
        UserError: there is no such corpus, or it cannot be read, or it is empty; the message says what to do.
    """
    if source == "stdlib":
        return Corpus("stdlib", stdlib.read_splits())
    if source == "wikitext-2":
        return Corpus("wikitext-2", wikitext.read_splits())
    path = Path(source)
    try:
        splits = text_files.read_splits(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): make it readable or give another") from error
    return Corpus(text_files.corpus_name(path), splits)


def _split_summary(documents: list[str]) -> dict[str, Any]:
    digest = hashlib.sha256()
    size = 0
    for document in documents:
        encoded = document.encode()
        digest.update(encoded)
        size += len(encoded)
    words = sum(map(count_words, documents))
    return {"documents": len(documents), "bytes": size, "words": words, "sha256": digest.hexdigest()}


def _hash_fields(fields: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for field in fields:
        encoded = field.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()
