"""The drawings of an experiment, from the charts that its results declare; what is missing is left out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from diffattn.report.charts import Axis, Curve, Point, draw_curves, ends
from diffattn.report.drawing import Drawing
from diffattn.report.heat import Frame, Grid, heat_drawing
from diffattn.report.maps import Map, maps_drawing
from diffattn.report.wording import as_given, finite, quantity

__all__ = ["experiment_drawings"]

Chart = dict[str, Any]


def experiment_drawings(results: dict[str, Any]) -> list[Drawing]:
    """A drawing for each entry of `results["charts"]` that is of a known kind and holds a finite number.

    Kinds: `curves` (points with intervals, lines with bands), `heat` (one map a variant) and `maps` (attention of one
    query). A chart without `alt` gets one made of its numbers; a name that stood before gets its place added.
    """
    found: list[Drawing] = []
    for place, chart in enumerate(results.get("charts") or (), 1):
        name = _name(chart, place, {drawing.name for drawing in found})
        make = _KINDS.get(str(chart.get("kind")))
        drawing = make(chart, name) if make else None
        if drawing is not None:
            found.append(drawing)
    return found


def _name(chart: Chart, place: int, taken: set[str]) -> str:
    """A name that can be a file's and an element's."""
    name = re.sub(r"[^a-z0-9-]+", "-", str(chart.get("name") or "").lower()).strip("-") or "chart"
    return f"{name}-{place}" if name in taken else name


def _curves(chart: Chart, name: str) -> Drawing | None:
    curves = [_curve(entry, place) for place, entry in enumerate(chart.get("curves") or ())]
    curves = [curve for curve in curves if any(map(math.isfinite, curve.values))]
    if not curves:
        return None
    title = _title(chart)
    cross = "A cross: there the curve breaks off." if any(curve.breaks_off for curve in curves) else ""
    x, y = _axis(chart.get("x") or {}), _axis(chart.get("y") or {})
    return Drawing(
        name=name,
        title=title,
        caption=" ".join(filter(None, (_words(chart, "caption"), cross))),
        alt=_words(chart, "alt") or ends(title, curves),
        legend=tuple((curve.name, curve.index) for curve in curves),
        draw=partial(draw_curves, title=title, curves=curves, x=x, y=y),
    )


def _curve(entry: dict[str, Any], place: int) -> Curve:
    """Points without a line of their own are joined; where a value is missing, that line and the band have a gap."""
    index = entry.get("variant")
    given = [point for point in entry.get("points") or () if finite(point[0]) is not None]
    return Curve(
        name=str(entry.get("name") or f"curve {place + 1}"),
        index=index if isinstance(index, int) else place,
        points=[point for one in given if (point := _point(*one)) is not None],
        line=_gaps(entry.get("line") or [point[:2] for point in given], 2),
        band=_gaps(entry.get("band") or (), 3),
    )


def _point(x: float, value: Any, low: Any = None, high: Any = None) -> Point | None:
    middle = finite(value)
    return None if middle is None else (float(x), middle, finite(low), finite(high))


def _gaps(rows: Iterable[Sequence[Any]], length: int) -> list[Any]:
    """The rows with NaN for what is not finite."""
    found = [tuple(_or_gap(value) for value in row[:length]) for row in rows]
    return [row for row in found if len(row) == length and math.isfinite(row[0])]


def _or_gap(value: Any) -> float:
    number = finite(value)
    return math.nan if number is None else number


def _axis(entry: dict[str, Any]) -> Axis:
    return Axis(
        label=_words(entry, "label"),
        log=bool(entry.get("log")),
        from_zero=bool(entry.get("from_zero")),
        lengths=bool(entry.get("lengths")),
        level=finite(entry.get("level")),
        marks=[(at, str(words)) for place, words in entry.get("marks") or () if (at := finite(place)) is not None],
    )


def _heat(chart: Chart, name: str) -> Drawing | None:
    panels = chart.get("panels") or ()
    grids = [Grid(title=_words(panel, "title"), values=panel.get("values") or ()) for panel in panels]
    rows, columns = (chart.get(side) or {} for side in ("rows", "columns"))
    low, high = finite(chart.get("low")), finite(chart.get("high"))
    grids = [grid for grid in grids if _seen(grid)]
    if not grids:
        return None
    frame = Frame(
        row_label=_words(rows, "label"),
        rows=_places(rows, max(len(grid.values) for grid in grids)),
        column_label=_words(columns, "label"),
        columns=_places(columns, max(len(row) for grid in grids for row in grid.values)),
        low=0.0 if low is None else low,
        high=max(map(max, map(_seen, grids))) if high is None else high,
        unit=_words(chart, "unit"),
    )
    title = _title(chart)
    caption = " ".join(filter(None, (_words(chart, "caption"), frame.key)))
    alt = _words(chart, "alt") or _heat_alt(title, grids)
    return heat_drawing(name=name, title=title, caption=caption, alt=alt, frame=frame, grids=grids)


def _seen(grid: Grid) -> list[float]:
    return [found for row in grid.values for value in row or () if (found := finite(value)) is not None]


def _places(side: dict[str, Any], number: int) -> list[str]:
    """The names of rows or columns; those that are missing are counted."""
    given = [as_given(one) if finite(one) is not None else str(one) for one in side.get("values") or ()]
    return [*given, *(str(place + 1) for place in range(len(given), number))]


def _heat_alt(title: str, grids: Sequence[Grid]) -> str:
    said = []
    for grid in grids:
        low, high = (quantity(end(_seen(grid)), 3) for end in (min, max))
        said.append(f"{grid.title or 'values'} from {low} to {high}")
    return f"{title}: {'; '.join(said)}."


def _maps(chart: Chart, name: str) -> Drawing | None:
    panels = chart.get("panels") or ()
    maps = [Map(title=_words(panel, "title"), weights=panel.get("values") or ()) for panel in panels]
    maps = [one for one in maps if any(finite(weight) is not None for weight in one.weights)]
    if not maps:
        return None
    answers = [panel.get("answer") for panel in panels]
    answer = next((one for one in answers if isinstance(one, int)), None)
    title, caption = _title(chart), _words(chart, "caption")
    alt = _words(chart, "alt") or _maps_alt(title, maps, answer)
    return maps_drawing(name=name, title=title, caption=caption, alt=alt, maps=maps, answer=answer)


def _maps_alt(title: str, maps: Sequence[Map], answer: int | None) -> str:
    said = []
    for one in maps:
        found = finite(one.weights[answer]) if answer is not None and 0 <= answer < len(one.weights) else None
        weights = [weight for value in one.weights if (weight := finite(value)) is not None]
        reach = f"has weights from {quantity(min(weights), 3)} to {quantity(max(weights), 3)}"
        given = "" if found is None else f" and gives the answer {quantity(found, 3)}"
        said.append(f"{one.title or 'a map'} {reach}{given}")
    return f"{title}: {'; '.join(said)}."


def _title(chart: Chart) -> str:
    return _words(chart, "title") or _words(chart, "name") or "Chart"


def _words(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    return "" if value is None else str(value)


_KINDS: dict[str, Callable[[Chart, str], Drawing | None]] = {"curves": _curves, "heat": _heat, "maps": _maps}
