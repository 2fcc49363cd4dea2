"""Which settings are drawn, and the rows that come of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from diffattn.data.progress import delayed_progress
from diffattn.experiments.noise.controls import Control, controls, together
from diffattn.experiments.noise.draws import Cell, measure, subtracted
from diffattn.experiments.noise.estimate import Array
from diffattn.experiments.noise.quantities import closed_form, describe
from diffattn.experiments.noise.settings import NoiseRequest
from diffattn.planning.noise_model import NoiseModel

__all__ = ["FIXED_LAMBDAS", "Point", "measure_all", "points"]

Row = dict[str, Any]

#: Lambdas of the sweep under independent noise.
FIXED_LAMBDAS = (1.0, 0.8, 0.5)

_MARGINS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0)
_STRENGTHS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
_SHARED = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6, 2.0)
_CORRELATIONS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_LAMBDAS = (*(step / 10 for step in range(13)), 1.5)
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.875, 1.0, 1.125)

#: Where the closed form is known to fail: the strength comes near sqrt(2 ln N) = 4.41, and the largest noise score
#: alone decides the sum.
_FAILING = NoiseModel(length=16_384, margin=16.0, strength=4.0)
_FAILING_STRENGTHS = (1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 4.4)


@dataclass(frozen=True)
class Point:
    """One setting: its sweep and place in it `x`, and the methods measured there with their lambdas."""

    sweep: str
    model: NoiseModel
    series: tuple[tuple[float, str, float], ...]


def points(request: NoiseRequest) -> list[Point]:
    """All settings but the controls', those of one length together."""
    lam = request.lam
    found = [_point("length", length, request.at(length=length), lam) for length in request.sweep_lengths]
    found += [_point("margin", x, request.at(margin=x), lam) for x in _with(_MARGINS, request.margin)]
    found += [_point("strength", x, request.at(strength=x), lam) for x in _with(_STRENGTHS, request.strength)]
    found += [_independent(request, x) for x in _SHARED]
    correlations = _with(_CORRELATIONS, request.correlation)
    found += [_point("correlation", x, request.at(correlation=x), lam) for x in correlations]
    found += [_lambdas(request)]
    seconds = _with([share * request.margin for share in _SHARES], request.second_margin)
    found += [_point("second_margin", x, request.at(second_margin=x), lam) for x in seconds]
    found += [Point("failing", replace(_FAILING, strength=x), ((x, "softmax", 0.0),)) for x in _FAILING_STRENGTHS]
    return sorted(found, key=lambda point: (point.sweep == "failing", point.model.length))


def measure_all(request: NoiseRequest, progress: bool = False) -> list[Row]:
    """Draw every setting and describe it: a row for each sweep, place and method.

    A row has `sweep`, `x`, `method`, the setting's numbers, `lambda` or a control's `parameter`, `draws`, whether the
    closed form `holds` and `output_holds`, and by what `deviation`, the share of draws in which the match is `kept`
    (top-k may lose it), and `measures` as `describe` makes them.
    """
    groups = [
        (length, failing, list(members))
        for (failing, length), members in groupby(
            points(request), key=lambda point: (point.sweep == "failing", point.model.length)
        )
    ]
    total = sum(length * _draws(request, failing) * len(members) for length, failing, members in groups)
    total += request.length * request.draws
    rows: list[Row] = []
    with delayed_progress("Drawing scores", total, enabled=progress) as advance:
        for length, failing, members in groups:
            chosen = controls(request) if length == request.length and not failing else []
            rows += _group(request, members, chosen, _draws(request, failing), advance)
    return rows


def _group(
    request: NoiseRequest,
    members: Sequence[Point],
    chosen: Sequence[Control],
    draws: int,
    advance: Callable[[float], None],
) -> Iterator[Row]:
    """The rows of settings of one length, which all see the same draws."""
    cells: list[Cell] = [(point.model, subtracted([0.0, *(lam for _, _, lam in point.series)])) for point in members]
    cells += [(request.model, together(chosen))] if chosen else []
    measured = measure(cells, draws, request.seed, advance)
    for point, (softmax, *others) in zip(members, measured, strict=False):
        for (x, method, lam), sums in zip(point.series, others, strict=True):
            closed = closed_form(point.model, lam)
            head = {"sweep": point.sweep, "x": x, "method": method, **_setting(point.model), "lambda": lam}
            trust: Row = {"holds": point.model.holds, "output_holds": point.model.output_holds}
            yield _row({**head, **trust}, sums, softmax, closed)
    if chosen:
        softmax, *others = measured[-1]
        for control, sums in zip(chosen, others, strict=True):
            head = {"sweep": "controls", "x": None, "method": control.name, **_setting(request.model)}
            trust = {"holds": control.holds, "output_holds": control.output_holds}
            yield _row({**head, "parameter": control.parameter, **trust}, sums, softmax, control.closed)


def _row(head: Row, sums: Array, softmax: Array, closed: dict[str, float | None]) -> Row:
    kept = float((sums[:, 0] != 0).mean())
    measures = describe(sums, softmax, head["length"] - 1, closed)
    if head["output_holds"] is False:
        for name in ("output_signal_to_noise", "output_gain"):
            measures[name]["inside"] = None
    return {**head, "draws": len(sums), "kept": kept, "measures": measures}


def _setting(model: NoiseModel) -> Row:
    return {
        "length": model.length,
        "margin": model.margin,
        "strength": model.strength,
        "second_margin": model.second_margin,
        "correlation": model.correlation,
        "deviation": model.deviation,
        "largest_chance": model.largest_chance,
    }


def _point(sweep: str, x: float, model: NoiseModel, lam: float) -> Point:
    """Softmax, the given lambda and the best one."""
    return Point(sweep, model, ((x, "softmax", 0.0), (x, "given", lam), (x, "best", model.best_lambda())))


def _independent(request: NoiseRequest, shared: float) -> Point:
    """Noise that the maps do not share at all: there s sqrt(1 - rho) is s, and nothing is in the second map."""
    model = request.at(strength=shared, correlation=0.0, second_margin=0.0)
    fixed = [(shared, f"lambda {lam:g}", lam) for lam in FIXED_LAMBDAS]
    return Point("independent", model, (*fixed, (shared, "best", model.best_lambda())))


def _lambdas(request: NoiseRequest) -> Point:
    chosen = _with(_LAMBDAS, request.lam, request.model.best_lambda())
    return Point("lambda", request.model, tuple((lam, "given", lam) for lam in chosen))


def _draws(request: NoiseRequest, failing: bool) -> int:
    """The failing case is short, and its heavy tails need more draws."""
    return 4 * request.draws if failing else request.draws


def _with(values: Sequence[float], *more: float) -> list[float]:
    return sorted({*values, *more})
