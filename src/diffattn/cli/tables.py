"""Tables in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

__all__ = ["print_table"]

#: A cell longer than this is a sentence; no table is wider than the other.
_SENTENCE, _WIDEST = 40, 400


def print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of numbers is never cut but as wide as it must be, its headings wrapped; one with sentences wraps them.

    Args:
        console: where to; cells are shown as they stand.
        columns: headings; the first column names the row.
        rows: cells of text.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    sentences = any(len(cell) > _SENTENCE for row in rows for cell in row)
    table = Table(box=None, header_style="italic", pad_edge=False)
    for index, name in enumerate(columns):
        heading = name if sentences else _folded(name, [row[index] for row in rows])
        justify: JustifyMethod = "right" if index and not sentences else "left"
        table.add_column(Text(heading), no_wrap=not sentences, overflow="fold", justify=justify, vertical="top")
    for row in rows:
        table.add_row(*map(Text, row))
    natural = table.__rich_measure__(console, console.options.update(width=_WIDEST)).maximum
    width = console.width if sentences else max(console.width, natural)
    Console(file=console.file, width=width, highlight=False).print(table, soft_wrap=False)


def _folded(heading: str, cells: Sequence[str]) -> str:
    """The heading in lines no longer than the cells below it, or than its longest word."""
    width = max(map(len, [*cells, *heading.split()]), default=1)
    return "\n".join(textwrap.wrap(heading, width)) or heading
