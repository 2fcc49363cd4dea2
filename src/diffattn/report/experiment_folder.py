"""The page and the pictures of an experiment, as files."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diffattn.report.drawing import Drawing
from diffattn.report.experiment_charts import experiment_drawings
from diffattn.report.experiment_page import render_experiment
from diffattn.report.page import write_page
from diffattn.storage import make_folder, put_folder

__all__ = ["CHARTS", "PAGE", "write_experiment"]

PAGE, CHARTS = "report.html", "charts"


def write_experiment(results: dict[str, Any], folder: Path) -> None:
    """Write `report.html` and, under `charts/`, each drawing as PNG and SVG; the folder is made where it is missing.

    The charts are written beside their place and moved there whole, in place of earlier ones; the page comes last,
    whole or not at all. Other files of the folder are left alone.

    Raises:
        UserError: the folder, or a file in it, cannot be written.
    """
    folder = make_folder(Path(folder).absolute())
    drawings = experiment_drawings(results)
    page = render_experiment(results, drawings)
    _write_charts(drawings, folder)
    write_page(page, folder / PAGE)


def _write_charts(drawings: Sequence[Drawing], folder: Path) -> None:
    unfinished = folder / f".{CHARTS}-unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        make_folder(unfinished)
        for drawing in drawings:
            for name, content in drawing.files().items():
                (unfinished / name).write_bytes(content)
        put_folder(unfinished, folder / CHARTS)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
