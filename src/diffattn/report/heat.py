"""Heat maps with the number in every cell: the colour helps to see, and is not needed to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from diffattn.report.drawing import Drawing, Palette, stand_alone
from diffattn.report.wording import MISSING, as_given, decimals_for, finite

__all__ = ["FULLEST", "Frame", "Grid", "draw_heat", "heat_drawing", "shade"]

#: How much of its colour the fullest cell has: more, and the number in it would be hard to read in one of the schemes.
FULLEST = 0.5
_CELL, _ROW, _LEAST = 0.42, 0.3, 3.4
_MOST_NUMBERS, _MOST_TICKS, _ACROSS = 16, 12, 4

Cells = Sequence[Sequence[float | None]]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What the maps of one drawing share.

    Attributes:
        row_label, column_label: words of the axes; rows, columns: names of the places on them.
        low, high: values without and with full colour; where `low` is 0 or less, colour says how far from 0 a value is,
            and another colour that it is below.
        unit: what the numbers are.
    """

    row_label: str
    rows: Sequence[str]
    column_label: str
    columns: Sequence[str]
    low: float = 0.0
    high: float = 1.0
    unit: str = ""

    @property
    def key(self) -> str:
        """How to read a cell, in words."""
        unit = f"{self.unit}: " if self.unit else ""
        words = f"the fuller the colour, the nearer to {as_given(self.high)}; a dash: not measured."
        return unit[:1].upper() + unit[1:] + (words if unit else words.capitalize())


@dataclass(frozen=True, kw_only=True)
class Grid:
    """One map: its `title` and `values[row][column]`; what is None, not finite or not there is a dash."""

    title: str
    values: Cells


def heat_drawing(*, name: str, title: str, caption: str, alt: str, frame: Frame, grids: Sequence[Grid]) -> Drawing:
    """The maps as one drawing; on a page each flows on its own, in a file they stand side by side."""
    return Drawing(
        name=name,
        title=title,
        caption=caption,
        alt=alt,
        legend=(),
        draw=partial(draw_heat, title=title, frame=frame, grids=grids),
        pieces=tuple(partial(draw_heat, title=title, frame=frame, grids=(grid,)) for grid in grids),
    )


def draw_heat(palette: Palette, title: str, frame: Frame, grids: Sequence[Grid]) -> Figure:
    """All maps in one figure, at most four in a row; call it with the palette's style in force."""
    across = min(_ACROSS, len(grids))
    down = -(-len(grids) // across)
    width = max(_LEAST, 1.0 + _CELL * len(frame.columns))
    height = 0.75 + 0.25 * any(grid.title for grid in grids) + _ROW * len(frame.rows)
    figure = Figure(figsize=(width * across, height * down + 0.6 * palette.paper), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False)
    for place, axes in enumerate(panels.flat):
        if place < len(grids):
            _fill(axes, palette, frame, grids[place])
            _name(axes, frame)
        else:
            axes.set_visible(False)
    stand_alone(figure, palette, f"{title}\n{frame.key}")
    return figure


def shade(value: float, low: float, high: float) -> float:
    """How full of colour the cell of `value` is, from 0 to 1."""
    if low <= 0:
        return min(1.0, abs(value) / (max(abs(low), abs(high)) or 1.0))
    return min(1.0, max(0.0, (value - low) / ((high - low) or 1.0)))


def _fill(axes: Axes, palette: Palette, frame: Frame, grid: Grid) -> None:
    """A cell's colour is one of the palette's, thinned by its value, so that it suits light and dark pages."""
    decimals = min(3, decimals_for((frame.low, frame.high)))
    numbers = len(frame.columns) <= _MOST_NUMBERS
    for row in range(len(frame.rows)):
        for column in range(len(frame.columns)):
            found = _value(grid.values, row, column)
            fullness = 0.0 if found is None else FULLEST * shade(found, frame.low, frame.high)
            colour = palette.series[2 if found is not None and found < 0 else 1]
            corner = (column - 0.5, row - 0.5)
            look: dict[str, Any] = {"facecolor": to_rgba(colour, fullness), "edgecolor": palette.line, "linewidth": 0.5}
            axes.add_patch(Rectangle(corner, 1, 1, **look))
            if numbers:
                words = MISSING if found is None else f"{found:.{decimals}f}"
                axes.text(column, row, words, ha="center", va="center", fontsize=9, color=palette.ink)
    axes.set_title(grid.title)


def _value(values: Cells, row: int, column: int) -> float | None:
    cells = values[row] if row < len(values) else ()
    return finite(cells[column]) if column < len(cells) else None


def _name(axes: Axes, frame: Frame) -> None:
    axes.set_xlim(-0.5, len(frame.columns) - 0.5)
    axes.set_ylim(len(frame.rows) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.set_frame_on(False)
    axes.tick_params(length=0)
    for ticks, names, words, label in (
        (axes.set_xticks, frame.columns, axes.set_xlabel, frame.column_label),
        (axes.set_yticks, frame.rows, axes.set_ylabel, frame.row_label),
    ):
        places = range(0, len(names), max(1, len(names) // _MOST_TICKS))
        ticks(list(places), [names[place] for place in places])
        words(label)
