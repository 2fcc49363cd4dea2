"""What is reported of a head."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Estimate", "HeadResult", "MapResult", "PossibleGain", "SignedResult"]


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
        effective_strength: that of the Gaussian noise that would take as much of the softmax from the answer. Far below
            `strength` where the scores spread mostly downwards, as those of a head that tells keys apart do.
        answer_mass, sink_mass, rest_mass: weight of the answer, of the first token, of all other keys together.
        signal_to_noise: the answer's weight over the mean weight of a noise key, measured; geometric mean.
        closed_signal_to_noise: the same by `NoiseModel` from each probe's margin and `strength`: what it would be if
            the noise were Gaussian. From `effective_strength` it is the measured one, by definition.
        largest: share of probes whose answer scores above all keys but the first token.
    """

    margin: Estimate
    strength: Estimate
    effective_strength: Estimate
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
        signal_to_noise: the answer's absolute weight over the mean absolute weight of a noise key, measured.
        closed_signal_to_noise, fitted_signal_to_noise: by `NoiseModel` from each probe's margins, correlation, lambda
            and strengths; fitted: effective strengths.
        gain, fitted_gain: measured and fitted over the first map's own signal-to-noise; below 1 the subtraction hurts.
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
    fitted_signal_to_noise: Estimate
    gain: Estimate
    fitted_gain: Estimate
    largest: float


@dataclass(frozen=True, kw_only=True)
class PossibleGain:
    """The most that a second map could bring by the closed form: equally noisy, nothing of the answer in it, with the
    given correlation of its noise and the best lambda.

    `lam` and `gain` are from the head's mean margin and strength; `fitted_lam` and `fitted_gain` from its mean margin
    and effective strength, which is the better guide where the two differ.
    """

    correlation: float
    lam: float
    gain: float
    fitted_lam: float
    fitted_gain: float


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
        margin_needed: the margin that would leave 10 % of the softmax to noise of this effective strength.
        possible_gains: one for each correlation, from the first map.
        closed_form_holds: whether `NoiseModel` may be trusted at this `strength` and number of keys.
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
