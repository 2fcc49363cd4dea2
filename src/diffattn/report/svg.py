"""Drawings as inline SVG that takes its colours and font from the page: one drawing serves light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

__all__ = ["DASHES", "INK", "LINE", "SERIES", "STYLE", "legend_entry", "to_svg"]

#: Line patterns in points, so that lines can be told apart without colour; the page's legend draws them too.
DASHES: tuple[tuple[float, ...], ...] = (
    *((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2)),
    *((9, 3), (3, 1), (8, 2, 1.5, 2, 1.5, 2), (2, 4)),
)
#: Stand-ins that matplotlib draws with; `to_svg` turns each into a variable of the page.
INK, LINE = "#a100f0", "#a100f1"
SERIES = tuple(f"#a1000{index}" for index in range(len(DASHES)))

STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


def legend_entry(name: str, index: int) -> dict[str, Any]:
    """What a page's legend shows of the series `index`: its name, colour and dashes."""
    index %= len(DASHES)
    return {"name": name, "index": index, "dash": " ".join(map(str, DASHES[index]))}


def to_svg(figure: Figure, name: str) -> str:
    """The figure as an `svg` element for a page that holds several; call it inside `rc_context(STYLE)`."""
    FigureCanvasSVG(figure)
    text = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    return _inline(text.getvalue(), name)


def _inline(svg: str, name: str) -> str:
    """Only the element: ids unique to `name`, colours the page's, no addresses of namespaces."""
    svg = svg[svg.index("<svg") :]
    substitutions: Sequence[tuple[str, str | Callable[[re.Match[str]], str]]] = (
        (r"\s*<metadata>.*?</metadata>", ""),
        (r"\s*<style[^>]*>.*?</style>", ""),
        (r"<!--.*?-->", ""),
        (r'\sxmlns(:xlink)?="[^"]*"', ""),
        (r"xlink:href", "href"),
        (r'\bid="', f'id="{name}-'),
        (r'href="#', f'href="#{name}-'),
        (r"url\(#", f"url(#{name}-"),
        (r"font:\s*([\d.]+px)[^;\"]*", r"font-size: \1"),
        (r"font-family:[^;\"]*;\s*", ""),
        (r'(<svg [^>]*?)width="[^"]*"', r"\1"),
        (r'(<svg [^>]*?)height="[^"]*"', r'\1aria-hidden="true"'),
        (re.escape(INK), "var(--ink)"),
        (re.escape(LINE), "var(--line)"),
        (r"#a1000(\d)", r"var(--series-\1)"),
    )
    for pattern, replacement in substitutions:
        svg = re.sub(pattern, replacement, svg, flags=re.DOTALL)
    return svg
