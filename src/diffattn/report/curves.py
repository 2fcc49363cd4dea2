"""The logged curves of all runs as one mean line and one band a variant; what is not finite is a gap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffattn.report.wording import finite

__all__ = ["Band", "difference_bands", "lambda_bands", "seed_bands"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Band:
    """A line `mean` over `x` (training tokens) between `low` and `high`, all of one length; NaN is a gap."""

    x: Array
    mean: Array
    low: Array
    high: Array


def seed_bands(results: dict[str, Any], key: str) -> dict[str, Band]:
    """For each variant, mean and range over seeds of the curve `key`, at the tokens that all logged."""
    found = {}
    for variant in results.get("variants") or ():
        curves = [curve for _, run in _runs(results, variant) if (curve := _curve(run, key))]
        if curves and (band := _band(curves, curves, curves)):
            found[variant] = band
    return found


def difference_bands(results: dict[str, Any]) -> dict[str, Band]:
    """For each variant but the baseline, loss minus the baseline's of the same seed, a little smoothed."""
    baseline = results.get("baseline")
    base = {seed: _curve(run, "loss") for seed, run in _runs(results, baseline)}
    found = {}
    for variant in results.get("variants") or ():
        if variant == baseline:
            continue
        pairs = [(_curve(run, "loss"), base[seed]) for seed, run in _runs(results, variant) if seed in base]
        curves = [
            _smooth({x: ours[x] - theirs[x] for x in ours if x in theirs}) for ours, theirs in pairs if ours and theirs
        ]
        if curves and (band := _band(curves, curves, curves)):
            found[variant] = band
    return found


def lambda_bands(results: dict[str, Any]) -> dict[int, dict[str, Band]]:
    """For each layer (from 0), for each variant that has a lambda: its mean and range over seeds."""
    found: dict[int, dict[str, Band]] = {}
    for variant in results.get("variants") or ():
        for layer in range(_layers(results, variant)):
            parts = [
                [_lambda_curve(run, kind, layer) for _, run in _runs(results, variant)]
                for kind in ("mean", "min", "max")
            ]
            means, lows, highs = ([curve for curve in curves if curve] for curves in parts)
            if means and lows and highs and (band := _band(means, lows, highs)):
                found.setdefault(layer, {})[variant] = band
    return found


def _runs(results: dict[str, Any], variant: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    for run in results.get("runs") or ():
        if run.get("variant") == variant:
            yield run.get("seed"), run


def _curve(run: dict[str, Any], key: str) -> dict[float, float]:
    curves = run.get("curves") or {}
    return _points(curves.get("tokens"), curves.get(key))


def _points(tokens: Any, values: Any) -> dict[float, float]:
    pairs = zip(tokens or (), values or (), strict=False)
    return {float(x): _or_gap(value) for x, value in pairs if finite(x) is not None}


def _or_gap(value: Any) -> float:
    number = finite(value)
    return float("nan") if number is None else number


def _layers(results: dict[str, Any], variant: str) -> int:
    logs = [log for _, run in _runs(results, variant) for log in _lambda(run).get("mean") or ()]
    return max((len(log) for log in logs if log), default=0)


def _lambda(run: dict[str, Any]) -> dict[str, Any]:
    return (run.get("curves") or {}).get("lambda") or {}


def _lambda_curve(run: dict[str, Any], kind: str, layer: int) -> dict[float, float]:
    logs = _lambda(run).get(kind) or ()
    values = [log[layer] if log and layer < len(log) else None for log in logs]
    return _points((run.get("curves") or {}).get("tokens"), values)


def _band(
    means: list[dict[float, float]], lows: list[dict[float, float]], highs: list[dict[float, float]]
) -> Band | None:
    """A mean with a gap at one seed is a gap: averaging the survivors would hide a broken run."""
    x = sorted(set.intersection(*(set(curve) for curve in [*means, *lows, *highs])))
    mean, low, high = (_stack(curves, x) for curves in (means, lows, highs))
    if not np.isfinite(mean.mean(axis=0)).any():
        return None
    return Band(np.asarray(x), mean.mean(axis=0), low.min(axis=0), high.max(axis=0))


def _stack(curves: list[dict[float, float]], x: list[float]) -> Array:
    return np.array([[curve[at] for at in x] for curve in curves], dtype=np.float64).reshape(len(curves), len(x))


def _smooth(curve: dict[float, float]) -> dict[float, float]:
    """A running mean over a fortieth of the logs, at least one."""
    x = sorted(curve)
    reach = len(x) // 80
    values = np.array([curve[at] for at in x])
    return {at: float(values[max(0, i - reach) : i + reach + 1].mean()) for i, at in enumerate(x)}
