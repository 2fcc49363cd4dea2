"""Charts of measured points with intervals over lines (a theory's, or a log's with its band)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from diffattn.report.drawing import Palette, stand_alone
from diffattn.report.svg import DASHES
from diffattn.report.wording import quantity

__all__ = ["Axis", "Curve", "Point", "draw_curves", "ends", "short"]

_WIDTH, _HEIGHT, _LEGEND_ROW = 4.5, 2.9, 0.2
_POINTS = "osD^vPX*"

Point = tuple[float, float, float | None, float | None]
Span = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One series: `points` measured as (x, value, low, high), a `line` as (x, value), such as that of the theory, a
    `band` as (x, low, high), its colour's `index`. Points without an interval have None for its ends; NaN in the line
    or the band is a gap.
    """

    name: str
    index: int
    points: Sequence[Point]
    line: Sequence[tuple[float, float]] = ()
    band: Sequence[Span] = ()

    @property
    def places(self) -> list[float]:
        """Where the values stand."""
        return [point[0] for point in self.points] or [point[0] for point in self.line]

    @property
    def values(self) -> list[float]:
        """Those of the points, where there are none those of the line."""
        return [point[1] for point in self.points] or [point[1] for point in self.line]

    @property
    def breaks_off(self) -> bool:
        """Whether it is a log that ends in NaN after something finite; where it does, a cross is drawn."""
        return any(map(math.isfinite, self.values)) and not math.isfinite(self.values[-1])


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What an axis shows.

    Attributes:
        label: its words.
        log: whether it is logarithmic.
        from_zero: whether it starts at 0.
        lengths: its numbers are lengths: 1K is 1,024.
        level: a value to draw a line at, such as a gain of 1.
        marks: values to draw a line at, each with its words.
    """

    label: str
    log: bool = False
    from_zero: bool = False
    lengths: bool = False
    level: float | None = None
    marks: Sequence[tuple[float, str]] = ()


def draw_curves(palette: Palette, title: str, curves: Sequence[Curve], x: Axis, y: Axis) -> Figure:
    """The curves, their lines below the measured points; call it with the palette's style in force."""
    legend = _LEGEND_ROW * ((len(curves) + 1) // 2)
    size = (_WIDTH * 1.35, _HEIGHT * 1.35 + legend) if palette.paper else (_WIDTH, _HEIGHT)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    for curve in curves:
        _curve(axes, palette, curve, y.log)
    _scale(axes, x, y, [point[0] for curve in curves for point in curve.points])
    if y.level is not None:
        axes.axhline(y.level, color=palette.ink, linewidth=0.9)
    for at, words in x.marks:
        _mark(axes, palette, at, words, curves)
    _alone(figure, axes, palette, title, len(curves))
    return figure


def ends(title: str, curves: Sequence[Curve]) -> str:
    """What the curves show, in words: where each begins and ends."""
    said = []
    for curve in curves:
        if seen := [value for value in curve.values if math.isfinite(value)]:
            broken = ", where it breaks off" if curve.breaks_off else ""
            said.append(f"{curve.name} goes from {quantity(seen[0], 3)} to {quantity(seen[-1], 3)}{broken}")
    return f"{title}: {'; '.join(said)}."


def short(value: float, _: object = None) -> str:
    """A number for an axis: 0.5, 20K, 1e+13."""
    for size, suffix in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if size <= abs(value) < 1e3 * size and abs(value) < 1e12:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def _curve(axes: Axes, palette: Palette, curve: Curve, log: bool) -> None:
    colour = palette.series[curve.index % len(palette.series)]
    dashes = DASHES[curve.index % len(DASHES)]
    line: Any = (0, dashes) if dashes else "-"
    if curve.band:
        places, lowest, highest = zip(*curve.band, strict=True)
        axes.fill_between(places, lowest, highest, color=colour, alpha=0.18, linewidth=0)
    if curve.line:
        axes.plot(*zip(*curve.line, strict=True), color=colour, linewidth=1.4, linestyle=line)
    if curve.breaks_off:
        last = [point for point in curve.line if math.isfinite(point[1])][-1:]
        axes.plot(*zip(*last, strict=True), "x", color=colour, markersize=8, markeredgewidth=2)
    xs, ys, below, above = [], [], [], []
    for x, value, low, high in curve.points:
        if log and value <= 0:
            continue
        xs.append(x)
        ys.append(value)
        below.append(max(value - low, 0.0) if low is not None else 0.0)
        above.append(max(high - value, 0.0) if high is not None else 0.0)
    marker = _POINTS[curve.index % len(_POINTS)] if curve.points else ""
    look: dict[str, Any] = {"fmt": marker, "color": colour, "markersize": 4, "elinewidth": 1.1, "capsize": 2}
    axes.errorbar(xs, ys, [below, above], **look)
    axes.plot([], [], marker=marker, markersize=4, color=colour, linewidth=1.4, linestyle=line, label=curve.name)


def _mark(axes: Axes, palette: Palette, at: float, words: str, curves: Sequence[Curve]) -> None:
    """A line with its words at that end of it which is farther from the curves."""
    drawn = [[*zip(curve.places, curve.values, strict=True)] for curve in curves if curve.values]
    near = [min(curve, key=lambda point: abs(point[0] - at))[1] for curve in drawn]
    axes.autoscale_view()  # limits that are not known yet would place the curves wrongly
    to_axes = axes.transData - axes.transAxes
    low = sum(to_axes.transform((at, value))[1] > 0.5 for value in near) > len(near) / 2
    axes.axvline(at, color=palette.ink, linewidth=0.8, linestyle=":")
    axes.annotate(
        words,
        (at, 0 if low else 1),
        xycoords=("data", "axes fraction"),
        xytext=(2, 3 if low else -2),
        textcoords="offset points",
        rotation=90,
        va="bottom" if low else "top",
        fontsize=9,
        color=palette.ink,
    )


def _scale(axes: Axes, x: Axis, y: Axis, places: Sequence[float]) -> None:
    for axis, set_scale, set_label, ticks in (
        (x, axes.set_xscale, axes.set_xlabel, axes.xaxis),
        (y, axes.set_yscale, axes.set_ylabel, axes.yaxis),
    ):
        set_label(axis.label)
        if axis.log:
            set_scale("log")
            ticks.set_minor_formatter(NullFormatter())
            ticks.set_major_locator(LogLocator(subs=_steps(*ticks.get_data_interval()), numticks=9))
        ticks.set_major_formatter(FuncFormatter(short))
    if y.from_zero:
        axes.set_ylim(bottom=0)
    if x.lengths:
        lengths = sorted(set(places))
        shown = lengths[:: max(1, (len(lengths) + 4) // 5)]
        axes.set_xticks(shown, [_length(length) for length in shown])
        axes.minorticks_off()


def _steps(low: float, high: float) -> tuple[float, ...]:
    """Which multiples of a power of ten are marked, so that a short axis has a few marks too."""
    if not 0 < low < high or high > 200 * low:
        return (1.0,)
    return (1.0, 2.0, 5.0) if high > 8 * low else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)


def _length(length: float) -> str:
    return f"{length / 1024:g}K" if length % 1024 == 0 else f"{length:,.0f}"


def _alone(figure: Figure, axes: Axes, palette: Palette, title: str, curves: int) -> None:
    """Title and legend, which a page has beside the drawing."""
    stand_alone(figure, palette, title)
    if not palette.paper:
        return
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside lower left",
        ncols=min(curves, 2),
        frameon=False,
        fontsize=9,
        labelcolor=palette.ink,
    )
