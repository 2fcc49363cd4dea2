"""The source text of the running Python's standard library: about 12 MB that every machine has."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from diffattn.errors import UserError

__all__ = ["read_splits", "split_of"]

_LEFT_OUT_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
# Written by the build of each Python, with its paths in it: not source text, and not the same twice.
_GENERATED_FOLDER = "config-"
_GENERATED_FILE = "_sysconfigdata"


def read_splits(folder: Path | None = None) -> dict[str, list[str]]:
    """Read every `.py` file as one document, in the order of their names, and split them by name.

    Args:
        folder: the library's folder; by default the running Python's.

    Raises:
        UserError: this Python comes without its library's source.
    """
    root = folder if folder is not None else Path(sysconfig.get_paths()["stdlib"])
    splits: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for name in sorted(_source_names(root)):
        text = _decoded(root / name)
        if text.strip():
            splits[split_of(name)].append(text)
    if not all(splits.values()):
        raise UserError(
            "this Python has no source of its standard library: use another Python, or give --data a text file"
        )
    return splits


def split_of(name: str) -> str:
    """The split of a file, by the hash of its name within the library, with slashes: about 90, 5 and 5 %."""
    percent = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % 100
    return "train" if percent < 90 else "validation" if percent < 95 else "test"


def _source_names(root: Path) -> Iterator[str]:
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if _is_wanted_folder(name)]
        for name in files:
            if name.endswith(".py") and not name.startswith(_GENERATED_FILE):
                yield (Path(folder) / name).relative_to(root).as_posix()


def _is_wanted_folder(name: str) -> bool:
    return name not in _LEFT_OUT_FOLDERS and not name.startswith((_GENERATED_FOLDER, "."))


def _decoded(path: Path) -> str:
    """The file's text, or nothing where it is not UTF-8, as a few old modules are not."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return ""
