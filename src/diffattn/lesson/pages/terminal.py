"""The lesson as plain text, in ASCII, no wider than the terminal and 100 columns."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable

from diffattn.lesson.pages import words
from diffattn.lesson.pages.part import Cell, Column, Exercise, Part, Step, Table, prose, shown

__all__ = ["closing", "exercises", "hint", "opening", "step", "table", "title"]

LABELS = {"given": "", "measured": "measured", "derived": "derived"}
GLUE = "\u00a0"  # no line is broken here; it is shown as a space


def opening(parts: Iterable[Part]) -> str:
    """What stands before the first part."""
    listed = list(parts)
    plan = [f"{part.number:3}  {part.title} ({part.minutes} min)" for part in listed]
    return "\n".join(
        [
            _heading("Differential attention: a lesson", "="),
            *(_filled(text) + "\n" for text in words.INTRODUCTION),
            f"{sum(part.minutes for part in listed)} minutes in all, to read; the exercises come on top:",
            *plan,
            "",
            _filled(words.ONE_PART),
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
    cells = [[_unbroken(cell, column) for cell, column in zip(row, made.columns, strict=True)] for row in made.rows]
    left = prose(made)
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
    return "\n".join(_line(row, widths, left) for row in rows)


def exercises(part: Part, asked: Iterable[Exercise], answer: bool) -> str:
    """A part's exercises, with or without their answers."""
    pieces = [_heading(f"Part {part.number}. {part.title}: exercises", "-")]
    for index, one in enumerate(asked, 1):
        pieces.append(_hanging(one.question, f"Exercise {part.number}.{index}  "))
        if answer:
            pieces.append(_hanging(one.answer, "  Answer: "))
    return "\n" + "\n\n".join(pieces)


def hint(number: int | None = None, curves: bool = True) -> str:
    """What else there is for a part, or for all."""
    command = "diffattn lesson" if number is None else f"diffattn lesson {number}"
    shown = f" Curves: {command} --html FILE" if curves else ""
    return "\n" + _filled(f"Exercises: {command} --exercise.{shown}")


def closing() -> str:
    """What stands after the last part."""
    terms = [
        f"  {t.name}\n{_hanging(t.said, '    said:  ')}\n{_hanging(t.meant, '    meant: ')}" for t in words.GLOSSARY
    ]
    readings = ["\n".join([_bullet(f"{r.title} ({r.source}). {r.why}"), *_links(r)]) for r in words.READINGS]
    pieces = [
        _heading("Ten points to keep", "="),
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
    return _hanging(text, "")


def _hanging(text: str, lead: str) -> str:
    """Filled lines after a lead; a command in backticks stays on one line."""
    whole = re.sub(r"`[^`]+`", lambda found: found[0].replace(" ", GLUE), text)
    rest = " " * len(lead)
    lines = textwrap.fill(whole, _width(), initial_indent=lead, subsequent_indent=rest, break_on_hyphens=False)
    return lines.replace(GLUE, " ")


def _bullet(text: str) -> str:
    return _hanging(text, "  - ")


def _links(reading: words.Reading) -> list[str]:
    """Links on lines of their own, but for those that the source names by its number."""
    return [f"    {link}" for link in reading.links if "arxiv.org" not in link]


def _unbroken(cell: Cell, column: Column) -> str:
    """A cell whose words may be parted; a number and its interval may not."""
    text = shown(cell, column.form)
    return text if isinstance(cell, str) else text.replace(" ", GLUE)


def _widths(columns: tuple[Column, ...], cells: list[list[str]]) -> list[int]:
    """Wide enough for cells and names; where the table is too wide the widest give way, but no word is cut."""
    widths, least = [], []
    for i, column in enumerate(columns):
        texts = [row[i] for row in cells]
        words_alone = [word for text in [column.name, *texts] for word in _pieces(text)]
        least.append(max(map(len, [*words_alone, LABELS[column.kind]])))
        widths.append(max(least[i], _half(column.name), *map(len, texts)))
    while sum(widths) + 2 * (len(widths) - 1) > _width() and widths != least:
        spare = [width if width > low else 0 for width, low in zip(widths, least, strict=True)]
        widths[spare.index(max(spare))] -= 1
    return widths


def _pieces(text: str) -> list[str]:
    return textwrap.wrap(text, 1, break_long_words=False)


def _half(name: str) -> int:
    """The least width at which a name takes two lines."""
    return next(width for width in range(len(name) // 2, len(name) + 1) if len(textwrap.wrap(name, max(width, 1))) <= 2)


def _wrapped(row: list[str], widths: list[int]) -> list[list[str]]:
    pieces = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
    height = max(map(len, pieces))
    return [list(line) for line in zip(*(piece + [""] * (height - len(piece)) for piece in pieces), strict=True)]


def _line(row: list[str], widths: list[int], left: list[bool]) -> str:
    cells = [cell.ljust(width) if to else cell.rjust(width) for cell, width, to in zip(row, widths, left, strict=True)]
    return "  ".join(cells).rstrip().replace(GLUE, " ")
