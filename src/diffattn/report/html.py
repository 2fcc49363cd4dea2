"""The web page about a results file: one file, nothing fetched, no script."""

from __future__ import annotations

import os
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from diffattn.errors import UserError
from diffattn.report.facts import facts, intervals
from diffattn.report.plots import plots
from diffattn.report.svg import DASHES
from diffattn.report.table import COLUMNS, rows
from diffattn.report.wording import join_words, variant_name

__all__ = ["render", "write_report"]


def write_report(results: dict[str, Any], path: Path) -> None:
    """Writes the page about `results` (what `compare` stores as results.json) to `path`, whole or not at all.

    Raises:
        UserError: `path` cannot be written.
    """
    path = Path(path)
    page = render(results)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, page)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot write the report to {path} ({reason}): name a file that can be written") from error


def render(results: dict[str, Any]) -> str:
    """The page as text. Whatever is missing from `results`, or not finite, is left out or shown as a dash."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    variants = [str(variant) for variant in results.get("variants") or ()]
    return environment.from_string(_packaged("template.html.j2")).render(
        title=_title(results, variants),
        style=Markup(_packaged("style.css")),
        verdict=[str(sentence) for sentence in results.get("verdict") or ()],
        columns=COLUMNS,
        rows=rows(results),
        intervals=intervals(results),
        plots=plots(results),
        series={name: _series(name, index) for index, name in enumerate(variants)},
        facts=facts(results),
        command=results.get("command"),
        markup=Markup,
    )


def _title(results: dict[str, Any], variants: list[str]) -> str:
    corpus = (results.get("corpus") or {}).get("name")
    on = f" on {corpus}" if corpus else ""
    return f"{join_words([variant_name(variant) for variant in variants]) or 'No variant'}{on}"


def _series(name: str, index: int) -> dict[str, Any]:
    index %= len(DASHES)
    return {"name": variant_name(name), "index": index, "dash": " ".join(map(str, DASHES[index]))}


def _packaged(name: str) -> str:
    return files("diffattn.report").joinpath(name).read_text(encoding="utf-8")


def _replace(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
