"""What a part of the lesson is made of. Text and page are both made from this, and numbers stay numbers until then."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from diffattn.lesson.estimates import Estimate, Share

__all__ = [
    "Cell",
    "Chart",
    "Column",
    "Exercise",
    "Kind",
    "Measured",
    "Part",
    "Series",
    "Step",
    "Table",
    "both",
    "pair",
    "prose",
    "shown",
]

Kind = Literal["given", "measured", "derived"]
Measured = Estimate | Share
Cell = float | int | str | Measured | None


@dataclass(frozen=True)
class Column:
    """A table's column: its name, where its numbers come from, and their format."""

    name: str
    kind: Kind = "given"
    form: str = ",.3f"


@dataclass(frozen=True)
class Table:
    columns: tuple[Column, ...]
    rows: Sequence[tuple[Cell, ...]]


def prose(table: Table) -> list[bool]:
    """Which columns hold words, and stand to the left."""
    return [all(row[i] is None or isinstance(row[i], str) for row in table.rows) for i in range(len(table.columns))]


@dataclass(frozen=True)
class Series:
    """A curve (derived) or points with intervals (measured)."""

    name: str
    kind: Kind
    points: Sequence[tuple[float, float | Measured]]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Attributes: title, the axes' labels, whether each is logarithmic, and the places of the x axis' ticks."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    x_log: bool = False
    y_log: bool = False
    x_ticks: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a part.

    Attributes:
        heading: what it is about.
        text: paragraphs: what is done, and why.
        formula: lines in plain ASCII.
        table: what was measured beside what was derived.
        charts: the same as curves, for the page.
        corrections: what is often told wrong, with what is right.
        shows: what the step shows, in one sentence.
    """

    heading: str
    text: tuple[str, ...]
    formula: str = ""
    table: Table | None = None
    charts: tuple[Chart, ...] = ()
    corrections: tuple[str, ...] = ()
    shows: str


@dataclass(frozen=True)
class Exercise:
    question: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the lesson; its steps and exercises are computed when they are called for.

    Attributes:
        number: 1 to 13.
        title: in a few words.
        minutes: that it takes to read, without the exercises.
        aim: what the reader can do afterwards, in one sentence.
        steps: each computes one step.
        exercises: computes the exercises with their answers.
    """

    number: int
    title: str
    minutes: int
    aim: str
    steps: tuple[Callable[[], Step], ...] = field(repr=False)
    exercises: Callable[[], tuple[Exercise, ...]] = field(repr=False)


def both(name: str, form: str) -> tuple[Column, Column]:
    """Two columns of one name, side by side: measured and derived."""
    return Column(name, "measured", form), Column(name, "derived", form)


def pair(
    name: str, curve: Sequence[tuple[float, float]], points: Sequence[tuple[float, float | Measured]]
) -> tuple[Series, Series]:
    """A derived curve and the measured points that belong to it."""
    return Series(f"{name}, derived", "derived", curve), Series(f"{name}, measured", "measured", points)


def shown(cell: Cell, form: str) -> str:
    """A cell as text; an estimate with the half of its 95 % interval, a share with the ends of its."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Estimate):
        return f"{_number(cell.value, form)} +- {cell.half:{form}}"
    if isinstance(cell, Share):
        return f"{cell.count:,} of {cell.draws:,}: {_ends(cell)}"
    return _number(cell, form)


def _ends(share: Share) -> str:
    """The interval of a share in words; where all or none came out so it has one end."""
    low, _, high = share.edges
    if share.count == 0:
        return f"up to {high:.2g}"
    if share.count == share.draws:
        return f"from {low:.2g}"
    digits = max(2, math.ceil(-math.log10(high - low)) + 1)
    return f"{low:.{digits}f} to {high:.{digits}f}"


def _number(value: float, form: str) -> str:
    """Formatted, and a zero without a sign."""
    text = f"{value:{form}}"
    return text[1:] if text.startswith("-") and not any(digit in text for digit in "123456789") else text
