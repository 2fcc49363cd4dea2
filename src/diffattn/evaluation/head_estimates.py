"""From the numbers of a head's probes to what is reported of it, with the closed form of `planning.noise_model`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from diffattn.evaluation.head_results import Estimate, HeadResult, MapResult, PossibleGain, SignedResult
from diffattn.planning.noise_model import NoiseModel, margin_for_noise_mass

__all__ = ["estimate", "head_result"]

#: Beyond these e^(margin) and e^(strength^2 / 2) leave float64, long after the closed form has ceased to hold.
_LARGEST_MARGIN, _STRENGTHS, _LARGEST_LOG = 300.0, (1e-6, 24.0), 700.0

Columns = dict[str, np.ndarray]


def estimate(values: np.ndarray, *, log: bool = False) -> Estimate:
    """Of one value a probe; `log` where the values are logarithms of what is reported."""
    count, mean = len(values), float(values.mean())
    bounds = []
    if count > 1:
        half = float(stats.t.ppf(0.975, count - 1) * values.std(ddof=1)) / math.sqrt(count)
        bounds = [mean - half, mean + half]
    mean, *bounds = (math.exp(min(value, _LARGEST_LOG)) if log else value for value in (mean, *bounds))
    low, high = bounds or (None, None)
    return Estimate(mean=mean, low=low, high=high)


def head_result(
    layer: int, head: int, maps: dict[str, Columns], noise_keys: int, correlations: tuple[float, ...]
) -> HeadResult:
    """From one value a probe: `maps` has "first", and for a differential head "second" and "signed" (with "lam")."""
    first, second, signed = maps["first"], maps.get("second"), maps.get("signed")
    length = noise_keys + 1
    plain, fitted = (_mean_model(length, first, strength) for strength in ("strength", "effective_strength"))
    used = first if signed is None else signed
    return HeadResult(
        layer=layer,
        head=head,
        probes=len(first["margin"]),
        noise_keys=noise_keys,
        first=_map(length, first),
        second=None if second is None else _map(length, second),
        signed=None if second is None or signed is None else _signed(length, first, second, signed),
        finds_answer=bool(used["largest"].mean() >= 0.5),
        margin_needed=margin_for_noise_mass(length, fitted.strength),
        possible_gains=tuple(_possible(plain, fitted, correlation) for correlation in correlations),
        closed_form_holds=plain.holds,
    )


def _map(length: int, columns: Columns) -> MapResult:
    names = ("margin", "strength", "effective_strength", "answer_mass", "sink_mass", "rest_mass")
    means: dict[str, Any] = {name: estimate(columns[name]) for name in names}
    pairs = zip(columns["margin"].tolist(), columns["strength"].tolist(), strict=True)
    return MapResult(
        **means,
        signal_to_noise=estimate(columns["log_signal_to_noise"], log=True),
        closed_signal_to_noise=estimate(_log([_model(length, *p).signal_to_noise() for p in pairs]), log=True),
        largest=float(columns["largest"].mean()),
    )


def _signed(length: int, first: Columns, second: Columns, signed: Columns) -> SignedResult:
    names = ("correlation", "lam", "answer_weight", "sink_mass", "rest_mass", "absolute_mass", "negative_mass")
    means: dict[str, Any] = {name: estimate(signed[name]) for name in names}
    closed, fitted = (_closed(length, first, second, signed, name) for name in ("strength", "effective_strength"))
    return SignedResult(
        **means,
        signal_to_noise=estimate(signed["log_signal_to_noise"], log=True),
        closed_signal_to_noise=estimate(closed, log=True),
        fitted_signal_to_noise=estimate(fitted, log=True),
        gain=estimate(signed["log_signal_to_noise"] - first["log_signal_to_noise"], log=True),
        fitted_gain=estimate(fitted - first["log_signal_to_noise"], log=True),
        largest=float(signed["largest"].mean()),
    )


def _closed(length: int, first: Columns, second: Columns, signed: Columns, strength: str) -> np.ndarray:
    """ln of the closed form's signal-to-noise, one a probe."""
    parts = (first["margin"], first[strength], second["margin"], second[strength], signed["correlation"])
    numbers = zip(*(part.tolist() for part in parts), strict=True)
    lambdas = signed["lam"].tolist()
    return _log([_model(length, *n).signal_to_noise(lam) for n, lam in zip(numbers, lambdas, strict=True)])


def _mean_model(length: int, first: Columns, strength: str) -> NoiseModel:
    return _model(length, float(first["margin"].mean()), float(first[strength].mean()))


def _model(
    length: int,
    margin: float,
    strength: float,
    second_margin: float = 0.0,
    second_strength: float | None = None,
    correlation: float = 0.0,
) -> NoiseModel:
    return NoiseModel(
        length=length,
        margin=_bounded(margin, -_LARGEST_MARGIN, _LARGEST_MARGIN),
        strength=_bounded(strength, *_STRENGTHS),
        second_margin=_bounded(second_margin, -_LARGEST_MARGIN, _LARGEST_MARGIN),
        second_strength=None if second_strength is None else _bounded(second_strength, *_STRENGTHS),
        correlation=correlation,
    )


def _bounded(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _possible(plain: NoiseModel, fitted: NoiseModel, correlation: float) -> PossibleGain:
    models = [replace(model, correlation=correlation) for model in (plain, fitted)]
    lam, fitted_lam = (model.best_lambda() for model in models)
    return PossibleGain(
        correlation=correlation,
        lam=lam,
        gain=models[0].gain(lam),
        fitted_lam=fitted_lam,
        fitted_gain=models[1].gain(fitted_lam),
    )


def _log(values: list[float]) -> np.ndarray:
    return np.log(np.clip(np.array(values), 1e-300, 1e300))
