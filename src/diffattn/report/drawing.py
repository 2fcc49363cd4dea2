"""A drawing in two forms: inline in a page, in the page's colours, and as files of its own on a light ground."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from diffattn.report.svg import INK, LINE, SERIES, STYLE, legend_entry, to_svg

__all__ = ["KINDS", "PAGE", "PAPER", "Drawing", "Palette", "stand_alone"]

#: What kinds of file a drawing is written as.
KINDS = ("png", "svg")


@dataclass(frozen=True, kw_only=True)
class Palette:
    """Colours to draw with.

    Attributes:
        ink: of text and marks; line: of axes and grid.
        series: of the curves.
        paper: the drawing stands alone, and so needs its title, legend and ground.
    """

    ink: str
    line: str
    series: tuple[str, ...]
    paper: bool

    @property
    def style(self) -> dict[str, Any]:
        """What `matplotlib.rc_context` takes."""
        swap = {INK: self.ink, LINE: self.line}
        style = {key: swap.get(value, value) if isinstance(value, str) else value for key, value in STYLE.items()}
        return style | ({"figure.facecolor": "#ffffff", "figure.dpi": 160} if self.paper else {})


PAGE = Palette(ink=INK, line=LINE, series=SERIES, paper=False)
#: The page's colours in its light scheme, axes a little darker.
PAPER = Palette(
    ink="#1b1f24",
    line="#b9c2cc",
    series=("#3d4650", "#0b62c4", "#c2410c", "#15803d", "#8a2be2", "#a3195b", "#7a5c00", "#0e7490"),
    paper=True,
)


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One drawing.

    Attributes:
        name: of its files, and of its ids in a page.
        title, caption: what it is, and how to read it.
        alt: what it shows, in words.
        legend: names of the series in it, with their index in the palette.
        draw: makes the figure in the colours of a palette.
        pieces: for a page, the same in figures of their own, which flow into as many columns as there is room for.
    """

    name: str
    title: str
    caption: str
    alt: str
    legend: tuple[tuple[str, int], ...]
    draw: Callable[[Palette], Figure]
    pieces: tuple[Callable[[Palette], Figure], ...] = ()

    @property
    def svg(self) -> str:
        """The `svg` element for a page, or a `div` of several; its ids start with `name`."""
        with matplotlib.rc_context(PAGE.style | {"svg.hashsalt": self.name}):
            if not self.pieces:
                return to_svg(self.draw(PAGE), self.name)
            found = [to_svg(piece(PAGE), f"{self.name}-{place}") for place, piece in enumerate(self.pieces)]
        return f'<div class="pieces">\n{"".join(found)}</div>'

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The legend as a page shows it."""
        return [legend_entry(name, index) for name, index in self.legend]

    def files(self) -> dict[str, bytes]:
        """The drawing as files that stand alone, by name: `<name>.png` and `<name>.svg`."""
        with matplotlib.rc_context(PAPER.style | {"svg.hashsalt": self.name}):
            figure = self.draw(PAPER)
            return {f"{self.name}.{kind}": _saved(figure, kind) for kind in KINDS}


def stand_alone(figure: Figure, palette: Palette, title: str) -> None:
    """Gives a figure for a file the title that a page has beside it."""
    if palette.paper:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, color=palette.ink)


def _saved(figure: Figure, kind: str) -> bytes:
    out = io.BytesIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type") if kind == "svg" else ("Software",))
    figure.savefig(out, format=kind, metadata=metadata)
    return out.getvalue()
