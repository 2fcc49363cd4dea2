"""Titled sections of sentences and tables, which the terminal and Markdown show alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Section", "Table", "amount", "at_context", "markdown", "plain", "share"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns and rows of text; the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A title, a table or none, and sentences before and after it."""

    title: str
    before: tuple[str, ...] = ()
    table: Table | None = None
    after: tuple[str, ...] = ()


def markdown(title: str, sections: Iterable[Section]) -> str:
    """A page with these sections."""
    lines = [f"# {title}", ""]
    for section in sections:
        lines += [f"## {section.title}", "", *_paragraphs(section.before)]
        if section.table:
            lines += [*_markdown_table(section.table), ""]
        lines += _paragraphs(section.after)
    return "\n".join(lines).rstrip() + "\n"


def at_context(values: Mapping[Any, float], context: int) -> float:
    """The value at a context; in JSON the contexts have become text."""
    return values[context] if context in values else values[str(context)]


def share(value: float) -> str:
    """A share in percent that never rounds to all or nothing: 98.6%, over 99.9%."""
    if 0.999 < value < 1:
        return "over 99.9%"
    return "under 0.1%" if 0 < value < 0.001 else f"{value:.1%}"


def plain(value: float) -> str:
    """A whole number with thousands separated, or three digits of a small one."""
    return f"{value:,.0f}" if value == 0 or abs(value) >= 100 else f"{value:.3g}"


def amount(value: float, unit: str = "") -> str:
    """A number with three digits and a decimal prefix: 16.4 TFLOP."""
    for size, prefix in (
        (1e24, "Y"),
        (1e21, "Z"),
        (1e18, "E"),
        (1e15, "P"),
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
    ):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def _paragraphs(texts: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    for text in texts:
        lines.append(text)
        if not text.startswith("- "):
            lines.append("")
    return [*lines, ""] if lines and lines[-1] else lines


def _markdown_table(table: Table) -> list[str]:
    rows = [table.columns, ("---",) * len(table.columns), *table.rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
