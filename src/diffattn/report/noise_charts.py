"""The drawings of a noise result: which sweep, which measure, which methods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from diffattn.report.charts import Axis, Curve, draw_curves, ends
from diffattn.report.dots import Dots, draw_dots
from diffattn.report.drawing import Drawing
from diffattn.report.noise_rows import SWEEPS, closed, find, measure, method_name, rows_of, value
from diffattn.report.wording import as_given, finite, quantity

__all__ = ["noise_drawings"]

Results = dict[str, Any]

_INDEX = {"softmax": 0, "given": 1, "best": 2, "lambda 1": 1, "lambda 0.8": 3, "lambda 0.5": 4}
_THREE = ("softmax", "given", "best")
_LABELS = {
    "noise_mass": "weight of all noise",
    "negative_mass": "weight below zero",
    "row_sum": "row sum",
    "signal_to_noise": "signal-to-noise, a position",
    "output_signal_to_noise": "signal-to-noise of the output",
    "gain": "signal-to-noise, times softmax's",
}


@dataclass(frozen=True, kw_only=True)
class _Chart:
    """A drawing of one sweep: `curves` as (method, measure)."""

    name: str
    title: str
    sweep: str
    curves: tuple[tuple[str, str], ...]
    caption: str
    y: Axis
    x_log: bool = False


def _of(measure: str, *methods: str) -> tuple[tuple[str, str], ...]:
    return tuple((method, measure) for method in methods)


def _axis(measure: str, **options: Any) -> Axis:
    return Axis(label=_LABELS[measure], **options)


_RATIO = {"log": True}
_GAIN = _axis("gain", level=1.0)

_CHARTS = (
    _Chart(
        name="floor",
        title="The noise floor over length",
        sweep="length",
        curves=_of("noise_mass", *_THREE),
        caption="Absolute weight of all keys but the match. Softmax's rises with length; a fixed lambda's may fall "
        "first, where it took too much.",
        y=_axis("noise_mass"),
        x_log=True,
    ),
    _Chart(
        name="signal-to-noise",
        title="Signal-to-noise per position over length",
        sweep="length",
        curves=_of("signal_to_noise", *_THREE),
        caption="Weight of the match over the mean weight of another key: a flat line for softmax. A fixed lambda "
        "takes away too much at short lengths.",
        y=_axis("signal_to_noise", from_zero=True),
        x_log=True,
    ),
    _Chart(
        name="output",
        title="Signal-to-noise of the output over length",
        sweep="length",
        curves=_of("output_signal_to_noise", *_THREE),
        caption="With uncorrelated values. This is what falls as the context grows.",
        y=_axis("output_signal_to_noise", **_RATIO),
        x_log=True,
    ),
    _Chart(
        name="margin",
        title="Signal-to-noise over the margin of the match",
        sweep="margin",
        curves=_of("signal_to_noise", *_THREE),
        caption="Where the match already has most of the weight, there is little noise, and a fixed lambda overshoots.",
        y=_axis("signal_to_noise", **_RATIO),
    ),
    _Chart(
        name="strength",
        title="Gain over the strength of the noise",
        sweep="strength",
        curves=_of("gain", "given", "best"),
        caption="Below 1 the subtraction hurts.",
        y=replace(_GAIN, log=True),
    ),
    _Chart(
        name="independent",
        title="Gain under noise that the maps do not share",
        sweep="independent",
        curves=_of("gain", "lambda 1", "lambda 0.8", "lambda 0.5", "best"),
        caption="Correlation 0. Dotted: the strength from which each fixed lambda loses. The best lambda gains at most "
        "1/erf(strength).",
        y=replace(_GAIN, log=True),
    ),
    _Chart(
        name="correlation",
        title="Gain over the correlation of the two maps' noise",
        sweep="correlation",
        curves=_of("gain", "given", "best"),
        caption="What the maps' noise has in common is removed, what each has alone stays.",
        y=_GAIN,
    ),
    _Chart(
        name="lambda",
        title="Gain over lambda",
        sweep="lambda",
        curves=_of("gain", "given"),
        caption="Lambda 0 is softmax. Dotted: the best lambda by the closed form.",
        y=_GAIN,
    ),
    _Chart(
        name="lambda-sum",
        title="Row sum and weight below zero over lambda",
        sweep="lambda",
        curves=(("given", "row_sum"), ("given", "negative_mass")),
        caption="The row sum is 1 minus lambda; weight below zero is given as a positive number.",
        y=Axis(label="weight"),
    ),
    _Chart(
        name="second-margin",
        title="Gain over the match's margin in the second map",
        sweep="second_margin",
        curves=_of("gain", "given", "best"),
        caption="A second map that holds the match takes the match away too. Beyond the first map's margin the match "
        "has a weight below zero: what gains there is the second map, upside down.",
        y=_GAIN,
    ),
    _Chart(
        name="failing",
        title="Where the closed form fails",
        sweep="failing",
        curves=_of("signal_to_noise", "softmax"),
        caption="16,384 keys, margin 16: near a strength of sqrt(2 ln N) = 4.4 the largest noise score decides the "
        "sum, and the line leaves the points.",
        y=_axis("signal_to_noise", **_RATIO),
    ),
)


def noise_drawings(results: Results) -> list[Drawing]:
    """All drawings whose sweeps the results hold, the controls' last."""
    found = [_drawing(results, chart) for chart in _CHARTS]
    return [drawing for drawing in (*found, _controls(results)) if drawing is not None]


def _drawing(results: Results, chart: _Chart) -> Drawing | None:
    curves = [curve for at, one in enumerate(chart.curves) if (curve := _curve(results, chart, at, *one)).points]
    if not curves:
        return None
    lengths = chart.sweep == "length"
    x = Axis(label=_x_label(chart.sweep), log=chart.x_log, lengths=lengths, marks=_marks(results, chart.name))
    return Drawing(
        name=chart.name,
        title=chart.title,
        caption=f"{chart.caption} Points: measured, with 95% intervals; lines: the closed form.",
        alt=ends(chart.title, curves),
        legend=tuple((curve.name, curve.index) for curve in curves),
        draw=partial(draw_curves, title=chart.title, curves=curves, x=x, y=chart.y),
    )


def _curve(results: Results, chart: _Chart, at: int, method: str, name: str) -> Curve:
    points, line = [], []
    rows = rows_of(results, chart.sweep, method)
    for row in rows:
        found, middle, expected = measure(row, name), value(row, name), closed(row, name)
        if middle is not None:
            points.append((row["x"], middle, finite(found.get("low")), finite(found.get("high"))))
        if expected is not None:
            line.append((row["x"], expected))
    shown = len({measure for _, measure in chart.curves}) > 1 or chart.sweep == "lambda"
    called = _LABELS[name] if shown else method_name(rows[0]) if rows else method
    return Curve(name=called, index=at if shown else _INDEX.get(method, at), points=points, line=line)


def _x_label(sweep: str) -> str:
    label = SWEEPS[sweep].partition(",")[0].partition(":")[0]
    return {"length": "keys that the query sees"}.get(sweep, label[0].lower() + label[1:])


def _marks(results: Results, name: str) -> list[tuple[float, str]]:
    if name == "independent":
        losing = results.get("losing_strengths") or ()
        return [(entry["strength"], f"lambda {as_given(entry['lambda'])} loses") for entry in losing]
    best = find(results, "length", "best", (results.get("options") or {}).get("length"))
    return [(best["lambda"], "")] if name == "lambda" and best else []


def _controls(results: Results) -> Drawing | None:
    controls = rows_of(results, "controls")
    if not controls:
        return None
    length = (results.get("options") or {}).get("length")
    rows = [row for method in _THREE if (row := find(results, "length", method, length))] + controls
    names = [method_name(row) for row in rows]
    measures = ("signal_to_noise", "output_signal_to_noise")
    panels = [Dots(label=_LABELS[name], points=[_dot(row, name) for row in rows]) for name in measures]
    title = "Cheaper controls on the same draws"
    said = [f"{name} {quantity(point[0], 3)}" for name, point in zip(names, panels[0].points, strict=True) if point]
    return Drawing(
        name="controls",
        title=title,
        caption="Bars are 95% intervals; where one is wide, a few draws decide. A sink and a gate leave "
        "signal-to-noise where it was.",
        alt=f"{title}: signal-to-noise per position is {', '.join(said)}.",
        legend=(),
        draw=partial(draw_dots, title=title, names=names, panels=panels),
        pieces=tuple(partial(draw_dots, title=title, names=names, panels=(panel,)) for panel in panels),
    )


def _dot(row: dict[str, Any], name: str) -> tuple[float, float | None, float | None] | None:
    middle, found = value(row, name), measure(row, name)
    if not middle or middle < 0:
        return None
    return middle, finite(found.get("low")), finite(found.get("high"))
