"""Files that are there whole or not at all."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from diffattn.errors import UserError

__all__ = ["make_folder", "put_folder", "read_json", "to_json", "write_json", "write_text"]


def to_json(value: Any) -> str:
    """`value` as JSON text that every reader takes: NaN and infinity, which JSON has not, become null."""
    return json.dumps(_plain(value), indent=1, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, see `write_text`."""
    write_text(path, to_json(value))


def write_text(path: Path, text: str) -> None:
    """Write `text` to a temporary file beside `path`, then rename it: nobody ever sees half of it.

    A link keeps pointing where it points; into what is no ordinary file, such as a pipe, it is written directly.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8", newline="\n")
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """What the file holds, or None where there is no such file.

    Raises:
        UserError: the file is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise UserError(f"{path} is a folder: name a file") from error
    except ValueError as error:
        raise UserError(
            f"{path} is damaged or no JSON ({error}): delete it and start again if a run wrote it, else name another"
        ) from error


def make_folder(folder: Path) -> Path:
    """Make the folder and those above it, where they are missing.

    Raises:
        UserError: it cannot be made, or a file has its name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"the folder {folder} cannot be written ({reason}): give another") from error


def put_folder(finished: Path, folder: Path) -> None:
    """Move a finished folder to its place beside it, and only then drop what was there.

    Raises:
        UserError: it cannot be moved; what was there before is still there.
    """
    old = folder.with_name(f".{folder.name}-old")
    try:
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        finished.rename(folder)
    except OSError as error:
        if old.exists() and not folder.exists():
            old.rename(folder)
        reason = error.strerror or str(error)
        raise UserError(f"the folder {folder} cannot be written ({reason}): give another") from error
    shutil.rmtree(old, ignore_errors=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
