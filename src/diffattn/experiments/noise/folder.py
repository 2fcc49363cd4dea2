"""The folder of a noise result: written beside its place and moved there whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diffattn.data.progress import delayed_progress
from diffattn.errors import UserError
from diffattn.report.drawing import KINDS
from diffattn.report.noise_document import drawings, markdown
from diffattn.report.noise_page import render_noise
from diffattn.storage import make_folder, put_folder, read_json, write_json
from diffattn.training.run_folder import refuse_strangers

__all__ = ["RESULTS", "reserved", "write_results"]

RESULTS = "results.json"
_TABLES, _PAGE = "tables.md", "report.html"


def write_results(results: dict[str, Any], folder: Path, progress: bool = False) -> None:
    """Write `results.json`, `tables.md`, `report.html`, and each drawing as PNG and SVG into an empty folder.

    `progress`: show a bar on standard error where it takes longer than two seconds.
    """
    drawn = drawings(results)
    write_json(folder / RESULTS, results)
    (folder / _TABLES).write_text(markdown(results), encoding="utf-8", newline="\n")
    with delayed_progress("Drawing plots", 1 + len(drawn), enabled=progress) as advance:
        (folder / _PAGE).write_text(render_noise(results), encoding="utf-8", newline="\n")
        advance(1)
        for drawing in drawn:
            for name, content in drawing.files().items():
                (folder / name).write_bytes(content)
            advance(1)


@contextmanager
def reserved(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` once the block is done, and vanishes if it is not.

    Raises:
        UserError: before any work, `folder` holds something else than an earlier result, or cannot be written.
    """
    folder = folder.absolute()
    _refuse_others(folder)
    unfinished = make_folder(folder.parent) / f".{folder.name}-unfinished"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        yield make_folder(unfinished)
        put_folder(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _refuse_others(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: give another folder")
    stored = read_json(folder / RESULTS)
    if not isinstance(stored, dict) or stored.get("kind") != "noise":
        refuse_strangers(folder)
        return
    ours = {RESULTS, _TABLES, _PAGE, *(f"{drawing.name}.{kind}" for drawing in drawings(stored) for kind in KINDS)}
    others = sorted({path.name for path in folder.iterdir()} - ours)
    if others:
        raise UserError(f"the folder {folder} holds {others[0]} beside an earlier result: give another folder")
