"""Self-contained pages: a template filled in, the style in it, one file, nothing fetched, no script."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from diffattn.errors import UserError
from diffattn.report.wording import MISSING
from diffattn.storage import write_text

__all__ = ["render_page", "worded", "write_page"]


def render_page(template: str, **values: Any) -> str:
    """The template of this room with `values` in it, as text; all strings are escaped.

    Every template extends `base.html.j2`, which needs `kind`, `title`, `facts` and `command`.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_packaged),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shared = {"style": Markup(_packaged("style.css")), "markup": Markup, "worded": worded}
    return environment.get_template(template).render(**shared, **values)


def worded(rows: Sequence[Sequence[str]]) -> list[bool]:
    """For each column of a table of equally long rows, whether most of what it holds is words, not numbers."""
    columns = ([cell for cell in column if cell not in ("", MISSING)] for column in zip(*rows, strict=True))
    return [2 * sum(cell[0].isalpha() for cell in column) > len(column) for column in columns]


def write_page(page: str, path: Path) -> None:
    """Writes a page, or any text, to `path`, whole or not at all; folders that are missing are made.

    Raises:
        UserError: `path` cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, page)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot write the report to {path} ({reason}): name a file that can be written") from error


def _packaged(name: str) -> str:
    return files("diffattn.report").joinpath(name).read_text(encoding="utf-8")
