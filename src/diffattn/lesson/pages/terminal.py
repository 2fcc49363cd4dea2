"""The lesson as plain text, in ASCII, no wider than the terminal and 100 columns."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable

from diffattn.lesson.pages import words
from diffattn.lesson.pages.part import Column, Exercise, Part, Step, Table, shown

__all__ = ["closing", "exercises", "hint", "opening", "step", "table", "title"]

LABELS = {"given": "", "measured": "measured", "derived": "derived"}


def opening(parts: Iterable[Part]) -> str:
    """What stands before the first part."""
    listed = list(parts)
    plan = [f"  {part.number}  {part.title} ({part.minutes} min)" for part in listed]
    return "\n".join(
        [
            _heading("Differential attention: a lesson", "="),
            *(_filled(text) + "\n" for text in words.INTRODUCTION),
            f"{sum(part.minutes for part in listed)} minutes in all:",
            *plan,
            "",
            _filled(words.ABSENT),
            "",
            "What you need:",
            *(_bullet(text) for text in words.PREREQUISITES),
        ]
    )


def title(part: Part) -> str:
    head = _heading(f"Part {part.number}. {part.title} ({part.minutes} minutes)", "=")
    return f"\n{head}\n{_filled(f'Afterwards you can: {part.aim}')}"


def step(made: Step, number: str) -> str:
    """One step: why, formula, table, corrections, and what it shows."""
    pieces = [_heading(f"{number}  {made.heading}", "-"), "\n\n".join(map(_filled, made.text))]
    if made.formula:
        pieces.append(textwrap.indent(made.formula, "    "))
    if made.table:
        pieces.append(table(made.table))
    pieces += [_hanging(text, "Often told wrong: ") for text in made.corrections]
    return "\n" + "\n\n".join([*pieces, _hanging(made.shows, "Shows: ")])


def table(made: Table) -> str:
    """Aligned columns under their names, each with where its numbers come from."""
    cells = [[shown(cell, column.form) for cell, column in zip(row, made.columns, strict=True)] for row in made.rows]
    prose = [all(_is_text(row[i]) for row in made.rows) for i in range(len(made.columns))]
    widths = _widths(made.columns, cells)
    names = [textwrap.wrap(column.name, width) for column, width in zip(made.columns, widths, strict=True)]
    head = max(map(len, names))
    lines = [[""] * (head - len(name)) + name for name in names]
    rows = [list(row) for row in zip(*lines, strict=True)]
    if any(column.kind != "given" for column in made.columns):
        rows.append([LABELS[column.kind] for column in made.columns])
    rows.append(["-" * width for width in widths])
    for row in cells:
        rows += _wrapped(row, widths)
    return "\n".join(_line(row, widths, prose) for row in rows)


def exercises(part: Part, asked: Iterable[Exercise], answer: bool) -> str:
    """A part's exercises, with or without their answers."""
    pieces = [_heading(f"Part {part.number}. {part.title}: exercises", "-")]
    for index, one in enumerate(asked, 1):
        pieces.append(_hanging(one.question, f"Exercise {part.number}.{index}  "))
        if answer:
            pieces.append(_hanging(one.answer, "  Answer: "))
    return "\n" + "\n\n".join(pieces)


def hint() -> str:
    """What else there is."""
    return "\nExercises: add --exercise, or --answer for their answers too. A page with curves: --html FILE"


def closing() -> str:
    """What stands after the last part."""
    terms = [
        f"  {t.name}\n{_hanging(t.said, '    said:  ')}\n{_hanging(t.meant, '    meant: ')}" for t in words.GLOSSARY
    ]
    readings = [_bullet(f"{r.title} ({r.source}). {r.why}") for r in words.READINGS]
    pieces = [
        _heading("When to use it", "="),
        *(_bullet(text) for text in words.WHEN),
        "\n" + _heading("Ten points to keep", "="),
        *(_hanging(text, f"  {index:2}  ") for index, text in enumerate(words.RECAP, 1)),
        "\n" + _heading("Nine terms: what people say, what it means", "="),
        *terms,
        "\n" + _heading("Readings", "="),
        *readings,
        "\n" + _heading("What comes next", "="),
        _filled(words.NEXT),
        hint(),
    ]
    return "\n" + "\n".join(pieces)


def _width() -> int:
    return min(100, max(40, shutil.get_terminal_size((100, 24)).columns))


def _heading(text: str, rule: str) -> str:
    return f"{text}\n{rule * len(text)}"


def _filled(text: str) -> str:
    return textwrap.fill(text, _width(), break_on_hyphens=False)


def _hanging(text: str, lead: str) -> str:
    return textwrap.fill(text, _width(), initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False)


def _bullet(text: str) -> str:
    return _hanging(text, "  - ")


def _is_text(cell: object) -> bool:
    return cell is None or isinstance(cell, str)


def _widths(columns: tuple[Column, ...], cells: list[list[str]]) -> list[int]:
    """Wide enough for cells and for each word of a name; the widest give way until the table fits."""
    widths = [
        max(
            *(len(row[i]) for row in cells),
            *map(len, column.name.split()),
            len(LABELS[column.kind]),
            _half(column.name),
        )
        for i, column in enumerate(columns)
    ]
    while sum(widths) + 2 * len(widths) > _width() and max(widths) > 16:
        widths[widths.index(max(widths))] -= 1
    return widths


def _half(name: str) -> int:
    """The least width at which a name takes two lines."""
    return next(width for width in range(len(name) // 2, len(name) + 1) if len(textwrap.wrap(name, max(width, 1))) <= 2)


def _wrapped(row: list[str], widths: list[int]) -> list[list[str]]:
    pieces = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
    height = max(map(len, pieces))
    return [list(line) for line in zip(*(piece + [""] * (height - len(piece)) for piece in pieces), strict=True)]


def _line(row: list[str], widths: list[int], prose: list[bool]) -> str:
    cells = [
        cell.ljust(width) if left else cell.rjust(width) for cell, width, left in zip(row, widths, prose, strict=True)
    ]
    return "  ".join(cells).rstrip()
