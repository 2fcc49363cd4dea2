"""What is reported of a head, and how it comes from the numbers of its probes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from diffattn.planning.noise_model import NoiseModel, margin_for_noise_mass

__all__ = ["Estimate", "HeadResult", "MapResult", "PossibleGain", "SignedResult", "estimate", "head_result"]

#: Beyond these e^(margin) and e^(strength^2 / 2) leave float64, long after the closed form has ceased to hold.
_LARGEST_MARGIN, _STRENGTHS, _LARGEST_LOG = 300.0, (1e-6, 24.0), 700.0

Columns = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over probes with its two-sided 95 % t interval; no interval (None) from one probe.

    For ratios it is the geometric mean: mean and interval of the logarithms, taken back. Probes differ in text and in
    depth, and both are in the interval.
    """

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class MapResult:
    """One softmax map of a head; scores in nats, masses as shares of 1.

    Attributes:
        margin: the answer's score above the mean of the noise.
        strength: standard deviation of the noise keys' scores.
        answer_mass, sink_mass, rest_mass: weight of the answer, of the first token, of all other keys together.
        signal_to_noise: the answer's weight over the mean weight of a noise key, measured; geometric mean.
        closed_signal_to_noise: the same by `NoiseModel` from each probe's margin and strength: what it would be if the
            noise were Gaussian.
        largest: share of probes whose answer scores above all keys but the first token.
    """

    margin: Estimate
    strength: Estimate
    answer_mass: Estimate
    sink_mass: Estimate
    rest_mass: Estimate
    signal_to_noise: Estimate
    closed_signal_to_noise: Estimate
    largest: float


@dataclass(frozen=True, kw_only=True)
class SignedResult:
    """The signed map of a differential head, first - lam second; its weights sum to 1 - lam.

    Attributes:
        correlation: of both maps' scores of the noise keys, over keys.
        lam: lambda of the query.
        answer_weight: signed weight of the answer.
        sink_mass, rest_mass: absolute weight of the first token, and of all other keys but the answer.
        absolute_mass: of all keys; `negative_mass`: how much of it is below zero.
        signal_to_noise, closed_signal_to_noise: as of `MapResult`, with absolute weights.
        gain, closed_gain: the same two over the first map's own; below 1 the subtraction hurts.
        largest: share of probes whose answer has the largest weight but for the first token.
    """

    correlation: Estimate
    lam: Estimate
    answer_weight: Estimate
    sink_mass: Estimate
    rest_mass: Estimate
    absolute_mass: Estimate
    negative_mass: Estimate
    signal_to_noise: Estimate
    closed_signal_to_noise: Estimate
    gain: Estimate
    closed_gain: Estimate
    largest: float


@dataclass(frozen=True, kw_only=True)
class PossibleGain:
    """The most that a second map could bring by the closed form: equally noisy, nothing of the answer in it, with the
    given correlation of its noise and the best lambda.
    """

    correlation: float
    lam: float
    gain: float


@dataclass(frozen=True, kw_only=True)
class HeadResult:
    """One head at one length.

    Attributes:
        layer, head: counted from 0; heads are query heads, or output heads where a head has two maps.
        probes: those whose answer the layer sees (it may lie outside a sliding window).
        noise_keys: keys that the query sees but the answer, the first token and its own position.
        first: the softmax map, or the signal map.
        second, signed: of a differential head; None otherwise.
        finds_answer: whether the weights that multiply the values (the signed ones, where there are) have the answer
            as the largest in at least half of the probes.
        margin_needed: the margin that leaves 10 % of the softmax to noise of this strength.
        possible_gains: from the mean margin and strength of the first map.
        closed_form_holds: whether `NoiseModel` may be trusted at this strength and number of keys.
    """

    layer: int
    head: int
    probes: int
    noise_keys: int
    first: MapResult
    second: MapResult | None
    signed: SignedResult | None
    finds_answer: bool
    margin_needed: float
    possible_gains: tuple[PossibleGain, ...]
    closed_form_holds: bool

    @property
    def answer_mass(self) -> float:
        """Mean weight of the answer among the weights that multiply the values."""
        return self.first.answer_mass.mean if self.signed is None else self.signed.answer_weight.mean


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
    models = _models(noise_keys + 1, first, second, signed)
    plain = _log([model.signal_to_noise() for model in models])
    seconds = None if second is None else _log([m.signal_to_noise() for m in _models(noise_keys + 1, second)])
    overall = _model(noise_keys + 1, float(first["margin"].mean()), float(first["strength"].mean()))
    used = first if signed is None else signed
    return HeadResult(
        layer=layer,
        head=head,
        probes=len(first["margin"]),
        noise_keys=noise_keys,
        first=_map(first, plain),
        second=None if second is None or seconds is None else _map(second, seconds),
        signed=None if signed is None else _signed(signed, first, models, plain),
        finds_answer=bool(used["largest"].mean() >= 0.5),
        margin_needed=margin_for_noise_mass(noise_keys + 1, overall.strength),
        possible_gains=tuple(_possible(overall, correlation) for correlation in correlations),
        closed_form_holds=overall.holds,
    )


def _map(columns: Columns, closed: np.ndarray) -> MapResult:
    names = ("margin", "strength", "answer_mass", "sink_mass", "rest_mass")
    plain: dict[str, Any] = {name: estimate(columns[name]) for name in names}
    return MapResult(
        **plain,
        signal_to_noise=estimate(columns["log_signal_to_noise"], log=True),
        closed_signal_to_noise=estimate(closed, log=True),
        largest=float(columns["largest"].mean()),
    )


def _signed(columns: Columns, first: Columns, models: list[NoiseModel], plain: np.ndarray) -> SignedResult:
    names = ("correlation", "lam", "answer_weight", "sink_mass", "rest_mass", "absolute_mass", "negative_mass")
    means: dict[str, Any] = {name: estimate(columns[name]) for name in names}
    measured = columns["log_signal_to_noise"]
    closed = _log([model.signal_to_noise(lam) for model, lam in zip(models, columns["lam"].tolist(), strict=True)])
    return SignedResult(
        **means,
        signal_to_noise=estimate(measured, log=True),
        closed_signal_to_noise=estimate(closed, log=True),
        gain=estimate(measured - first["log_signal_to_noise"], log=True),
        closed_gain=estimate(closed - plain, log=True),
        largest=float(columns["largest"].mean()),
    )


def _models(
    length: int, first: Columns, second: Columns | None = None, signed: Columns | None = None
) -> list[NoiseModel]:
    """The closed form of each probe."""
    margins, strengths = first["margin"].tolist(), first["strength"].tolist()
    if second is None or signed is None:
        return [_model(length, *pair) for pair in zip(margins, strengths, strict=True)]
    others = (second["margin"].tolist(), second["strength"].tolist(), signed["correlation"].tolist())
    return [_model(length, *numbers) for numbers in zip(margins, strengths, *others, strict=True)]


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


def _possible(model: NoiseModel, correlation: float) -> PossibleGain:
    wanted = _model(model.length, model.margin, model.strength, correlation=correlation)
    lam = wanted.best_lambda()
    return PossibleGain(correlation=correlation, lam=lam, gain=wanted.gain(lam))


def _log(values: list[float]) -> np.ndarray:
    return np.log(np.clip(np.array(values), 1e-300, 1e300))
