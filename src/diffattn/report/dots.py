"""Dots by name, a panel beside another for each measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from diffattn.report.charts import short
from diffattn.report.drawing import Palette, stand_alone
from diffattn.report.wording import quantity

__all__ = ["Dots", "draw_dots"]

_WIDTH, _HEIGHT = 4.5, 0.34


@dataclass(frozen=True, kw_only=True)
class Dots:
    """A panel of dots by name: `points` as (value, low, high), None where there is nothing to show."""

    label: str
    points: Sequence[tuple[float, float | None, float | None] | None]


def draw_dots(palette: Palette, title: str, names: Sequence[str], panels: Sequence[Dots]) -> Figure:
    """A row for each name, a panel beside another for each measure, on logarithmic axes."""
    height = 0.9 + _HEIGHT * len(names)
    figure = Figure(figsize=(_WIDTH * (1.0, 1.75)[len(panels) > 1], height), layout="constrained")
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    places = range(len(names))
    for axes, panel in zip(grid, panels, strict=True):
        for place, point in zip(places, panel.points, strict=True):
            if point is not None:
                _dot(axes, palette, place, *point)
        axes.set_xscale("log")
        axes.margins(x=0.12)
        axes.set_xlabel(panel.label)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_locator(LogLocator(numticks=4))
        axes.xaxis.set_major_formatter(FuncFormatter(short))
        axes.set_yticks(list(places), list(names))
        axes.set_ylim(len(names) - 0.5, -0.5)
    stand_alone(figure, palette, title)
    return figure


def _dot(axes: Axes, palette: Palette, place: int, value: float, low: float | None, high: float | None) -> None:
    colour = palette.series[1]
    if low is not None and high is not None:
        axes.plot([low, high], [place, place], color=colour, linewidth=1.4)
    axes.plot([value], [place], "o", color=colour, markersize=5)
    axes.annotate(
        quantity(value, 3),
        (value, place),
        xytext=(0, 5),
        textcoords="offset points",
        ha="center",
        fontsize=9,
        color=palette.ink,
    )
