"""Curves as inline SVG, in the stylesheet's colours: lines are derived, points with intervals are measured."""

from __future__ import annotations

from html import escape

from diffattn.lesson.pages.axes import Axis, axis, short
from diffattn.lesson.pages.part import Chart, Measured, Series

__all__ = ["figure"]

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 84, 24, 12, 58
FONT = 15
DASHES = ("none", "9 4", "2 3", "9 3 2 3", "5 5", "14 4")


def figure(chart: Chart) -> str:
    """A figure with its title, a legend and the curves."""
    styles = _styles(chart)
    legend = "".join(f"<span>{_sample(s, styles[s.name])} {escape(s.name)}</span>" for s in chart.series)
    return (
        f'<figure><h4>{escape(chart.title)}</h4>\n<div class="legend">{legend}</div>\n'
        f'<div class="plot" tabindex="0" role="region" aria-label="Chart: {escape(chart.title)}">\n'
        f"{_svg(chart, styles)}</div></figure>"
    )


def _styles(chart: Chart) -> dict[str, int]:
    """A number for each series' colour and dash; a measured and a derived series of one name share it."""
    bare = {series.name: series.name.removesuffix(", measured").removesuffix(", derived") for series in chart.series}
    order = list(dict.fromkeys(bare.values()))
    return {name: order.index(base) % len(DASHES) for name, base in bare.items()}


def _svg(chart: Chart, styles: dict[str, int]) -> str:
    x, y = _axes(chart)
    label = f"{chart.title}. {chart.y} over {chart.x}: {'; '.join(map(_described, chart.series))}."
    drawn = "".join(_line(s, x, y, styles[s.name]) for s in chart.series if s.kind == "derived")
    drawn += "".join(_points(s, x, y, styles[s.name]) for s in chart.series if s.kind == "measured")
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">\n'
        f"<title>{escape(chart.title)}</title>\n{_grid(x, y)}{_labels(chart)}{drawn}</svg>"
    )


def _axes(chart: Chart) -> tuple[Axis, Axis]:
    across = [point[0] for series in chart.series for point in series.points]
    up = [edge for series in chart.series for _, value in series.points for edge in _edges(value)]
    if chart.y_log:
        up = [value for value in up if value > 0]
    return axis(across, chart.x_log, tuple(map(float, chart.x_ticks))), axis(up, chart.y_log)


def _edges(value: float | Measured) -> tuple[float, ...]:
    return (value,) if isinstance(value, (int, float)) else value.edges


def _described(series: Series) -> str:
    """A series in words: its name, and its first and last value."""
    first, last = (_edges(series.points[i][1]) for i in (0, -1))
    return f"{series.name}, from {first[len(first) // 2]:.3g} to {last[len(last) // 2]:.3g}"


def _x(x: Axis, value: float) -> float:
    return round(LEFT + x.place(value) * (WIDTH - LEFT - RIGHT), 1)


def _y(y: Axis, value: float) -> float:
    value = max(value, y.low) if y.log else value
    return round(HEIGHT - BOTTOM - y.place(value) * (HEIGHT - TOP - BOTTOM), 1)


def _grid(x: Axis, y: Axis) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    lines = []
    for tick in x.ticks:
        at = _x(x, tick)
        lines.append(f'<line x1="{at}" x2="{at}" y1="{TOP}" y2="{bottom}" stroke="var(--line)" stroke-width="1"/>')
        lines.append(_text(at, bottom + 20, short(tick), "middle"))
    for tick in y.ticks:
        at = _y(y, tick)
        lines.append(f'<line x1="{LEFT}" x2="{right}" y1="{at}" y2="{at}" stroke="var(--line)" stroke-width="1"/>')
        lines.append(_text(LEFT - 8, at + 5, short(tick), "end"))
    return "\n".join(lines) + "\n"


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    place = f'x="{x}" y="{y}" text-anchor="{anchor}" font-size="{FONT}"'
    return f'<text {place} fill="var(--soft)"{more}>{escape(text)}</text>'


def _labels(chart: Chart) -> str:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f' transform="rotate(-90 16 {middle})"'
    across = _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, chart.x, "middle")
    return f"{across}\n{_text(16, middle, chart.y, 'middle', turned)}\n"


def _line(series: Series, x: Axis, y: Axis, style: int) -> str:
    places = [(_x(x, at), _y(y, _edges(value)[0])) for at, value in series.points]
    if len(places) == 1:
        return f'<circle cx="{places[0][0]}" cy="{places[0][1]}" r="6" fill="var(--series-{style})"/>\n'
    way = " ".join(f"{a},{b}" for a, b in places)
    return f'<polyline points="{way}" fill="none" {_stroke(style)}/>\n'


def _points(series: Series, x: Axis, y: Axis, style: int) -> str:
    drawn = []
    for at, value in series.points:
        across, edges = _x(x, at), [_y(y, edge) for edge in _edges(value)]
        if len(edges) > 1:
            ends = f'y1="{edges[0]}" y2="{edges[2]}"'
            drawn.append(f'<line x1="{across}" x2="{across}" {ends} stroke="var(--series-{style})" stroke-width="2"/>')
        middle = edges[len(edges) // 2]
        drawn.append(f'<circle cx="{across}" cy="{middle}" r="4" fill="var(--page)" {_stroke(style, dash=False)}/>')
    return "\n".join(drawn) + "\n"


def _stroke(style: int, dash: bool = True) -> str:
    dashes = f' stroke-dasharray="{DASHES[style]}"' if dash and style else ""
    return f'stroke="var(--series-{style})" stroke-width="2"{dashes}'


def _sample(series: Series, style: int) -> str:
    """The legend's piece of a line, or its point."""
    if series.kind == "measured":
        inside = f'<circle cx="14" cy="6" r="4" fill="var(--page)" {_stroke(style, dash=False)}/>'
    elif len(series.points) == 1:
        inside = f'<circle cx="14" cy="6" r="5" fill="var(--series-{style})"/>'
    else:
        inside = f'<line x1="0" x2="28" y1="6" y2="6" {_stroke(style)}/>'
    return f'<svg width="28" height="12" aria-hidden="true">{inside}</svg>'
