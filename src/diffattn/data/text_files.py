"""The user's own text: one file cut into splits, or a folder with a file a split, plain or gzip."""

from __future__ import annotations

import gzip
import re
import zlib
from itertools import pairwise
from pathlib import Path

from diffattn.errors import UserError

__all__ = ["corpus_name", "documents_of", "read_splits", "read_text"]

_STEMS = {"train": ("train",), "validation": ("valid", "validation"), "test": ("test",)}
_SUFFIXES = (".txt", ".txt.gz")
_SEPARATOR = "<|endoftext|>"
_WIKITEXT_TITLE = re.compile(r"^ = [^=\n]+ = $", re.MULTILINE)
# Below this many documents, 90/5/5 would be too coarse by document and a file is cut by line instead.
_FEWEST_DOCUMENTS = 40


def read_splits(path: Path) -> dict[str, list[str]]:
    """Read a text file, cut 90/5/5 in its own order, or a folder's `train`, `valid` and `test`.

    Raises:
        UserError: nothing there, a split missing or twice there, or a file that is empty or not UTF-8 text.
        OSError: it is there but may not be read.
    """
    if path.is_dir():
        return {split: documents_of(read_text(file)) for split, file in _split_files(path).items()}
    if path.is_file():
        return _cut(documents_of(read_text(path)), path)
    raise UserError(
        f"there is no corpus {path}: give stdlib, wikitext-2, the path of a text file, "
        "or of a folder with train, valid and test as .txt or .txt.gz"
    )


def corpus_name(path: Path) -> str:
    """The last part of the path without `.txt` or `.txt.gz`: a report shows no folders of this machine."""
    name = path.resolve().name
    return name.removesuffix(".gz").removesuffix(".txt") or name


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, unpacked where its name ends in `.gz`; line ends are kept as they are.

    Raises:
        UserError: it cannot be unpacked, is not UTF-8 text, or holds nothing but white space.
    """
    try:
        text = _read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text (byte {error.start}): convert it, for example with iconv -t utf-8"
        ) from error
    if "\0" in text:
        raise UserError(f"{path} is a binary file: give a text file in UTF-8")
    if not text.strip():
        raise UserError(f"{path} is empty: give a file with text in it")
    return text


def documents_of(text: str) -> list[str]:
    """Cut a text into documents: at `<|endoftext|>`, else at WikiText's article titles, else not at all.

    Only separators are dropped, with the line breaks around them; otherwise the documents joined are the text.
    """
    if _SEPARATOR in text:
        parts = (part.strip("\r\n") for part in text.split(_SEPARATOR))
        return [part for part in parts if part.strip()]
    starts = [match.start() for match in _WIKITEXT_TITLE.finditer(text)]
    bounds = [0, *starts[1:], len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def _read_bytes(path: Path) -> bytes:
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                return file.read()
        return path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a complete gzip file: fetch or pack it again") from error


def _split_files(folder: Path) -> dict[str, Path]:
    found = {split: _candidates(folder, stems) for split, stems in _STEMS.items()}
    missing = [_STEMS[split][0] for split, files in found.items() if not files]
    if missing:
        raise UserError(
            f"the folder {folder} lacks {' and '.join(missing)}: it must hold train, valid and test, "
            "each as .txt or .txt.gz (or give one text file, which is then split)"
        )
    for files in found.values():
        if len(files) > 1:
            names = " and ".join(file.name for file in files)
            raise UserError(f"the folder {folder} holds {names} for the same split: keep one of them")
    return {split: files[0] for split, files in found.items()}


def _candidates(folder: Path, stems: tuple[str, ...]) -> list[Path]:
    names = (folder / f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES)
    return [path for path in names if path.is_file()]


def _cut(documents: list[str], path: Path) -> dict[str, list[str]]:
    """Train, then validation, then test, each one stretch: neighbouring text never lands in two splits."""
    by_line = len(documents) < _FEWEST_DOCUMENTS
    units = "".join(documents).splitlines(keepends=True) if by_line else documents
    splits: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    total, seen = sum(map(len, units)), 0
    for unit in units:
        middle = (seen + len(unit) / 2) / total
        splits["train" if middle < 0.9 else "validation" if middle < 0.95 else "test"].append(unit)
        seen += len(unit)
    if not all("".join(parts).strip() for parts in splits.values()):
        raise UserError(f"{path} is too small to split: give more lines, or a folder with train, valid and test")
    return {split: ["".join(parts)] if by_line else parts for split, parts in splits.items()}
