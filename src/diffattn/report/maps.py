"""Attention maps of one query side by side: what stands above zero, what below, and where the answer is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from diffattn.report.charts import short
from diffattn.report.drawing import Drawing, Palette, stand_alone
from diffattn.report.wording import finite, quantity

__all__ = ["Map", "draw_maps", "maps_drawing"]

_WIDTH, _HEIGHT = 3.4, 2.3


@dataclass(frozen=True, kw_only=True)
class Map:
    """One map: its `title` and the `weights` of the query, one a key; what is None or not finite is a gap."""

    title: str
    weights: Sequence[float | None]

    @property
    def values(self) -> NDArray[np.float64]:
        """The weights, with NaN for gaps."""
        found = [finite(weight) for weight in self.weights]
        return np.array([np.nan if weight is None else weight for weight in found], dtype=np.float64)


def maps_drawing(
    *, name: str, title: str, caption: str, alt: str, maps: Sequence[Map], answer: int | None = None
) -> Drawing:
    """The maps as one drawing, all on one scale; on a page each flows on its own, in a file they stand side by side.

    Args:
        name, title, caption, alt: as those of `Drawing`.
        maps: such as the two softmax maps and the signed one.
        answer: the position of the key that holds the answer, from 0; None where there is none.
    """
    limits = _limits(maps)
    draw = partial(draw_maps, title=title, answer=answer, limits=limits)
    return Drawing(
        name=name,
        title=title,
        caption=caption,
        alt=alt,
        legend=(),
        draw=partial(draw, maps=maps),
        pieces=tuple(partial(draw, maps=(one,)) for one in maps),
    )


def draw_maps(
    palette: Palette, title: str, maps: Sequence[Map], answer: int | None, limits: tuple[float, float] | None = None
) -> Figure:
    """A panel a map between `limits`, where None all that they reach; call it with the palette's style in force."""
    size = (_WIDTH * len(maps), _HEIGHT + 0.35 * palette.paper)
    figure = Figure(figsize=size, layout="constrained")
    for axes, one in zip(figure.subplots(1, len(maps), squeeze=False)[0], maps, strict=True):
        _bars(axes, palette, one.values)
        _mark(axes, palette, one.values, answer)
        axes.set_ylim(limits or _limits(maps))
        axes.set_title(one.title)
        axes.set_xlabel("position of the key")
        axes.set_ylabel("weight")
    stand_alone(figure, palette, title)
    return figure


def _limits(maps: Sequence[Map]) -> tuple[float, float]:
    """From the lowest weight, at most 0, to the highest, with room for the answer's mark above."""
    values = np.concatenate([np.zeros(1), *(one.values for one in maps)])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    reach = (high - low) or 1.0
    return low - 0.06 * reach * (low < 0), high + 0.22 * reach


def _bars(axes: Axes, palette: Palette, values: NDArray[np.float64]) -> None:
    """A bar a key, of one path for each sign; its edge keeps a narrow one visible."""
    edges = np.arange(len(values) + 1) - 0.5
    for part, colour in ((np.clip(values, 0, None), 1), (np.clip(values, None, 0), 2)):
        if np.nanmax(np.abs(part), initial=0.0) > 0:
            shade = palette.series[colour]
            axes.stairs(part, edges, fill=True, facecolor=shade, edgecolor=shade, linewidth=0.6)
    axes.axhline(0, color=palette.ink, linewidth=0.8)
    axes.set_xlim(-0.5 - 0.01 * len(values), len(values) - 0.5 + 0.01 * len(values))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(short))


def _mark(axes: Axes, palette: Palette, values: NDArray[np.float64], answer: int | None) -> None:
    if answer is None or not 0 <= answer < len(values):
        return
    right = answer < len(values) / 2
    weight = values[answer]
    words = f"answer {quantity(float(weight), 2)}" if np.isfinite(weight) else "answer"
    axes.axvline(answer, color=palette.ink, linewidth=0.8, linestyle=":")
    axes.plot([answer], [0.97], "v", color=palette.ink, markersize=5, transform=axes.get_xaxis_transform())
    axes.annotate(
        words,
        (answer, 0.97),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        xytext=(6 if right else -6, 0),
        ha="left" if right else "right",
        va="center",
        fontsize=9,
        color=palette.ink,
    )
