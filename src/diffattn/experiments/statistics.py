"""The paired t interval over seeds, the smallest difference that a run could have seen, and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from scipy import optimize, stats

__all__ = ["detectable_difference", "holm", "paired_difference"]


def paired_difference(
    values: Sequence[float], baseline_values: Sequence[float], confidence: float = 0.95, power: float = 0.8
) -> dict[str, Any]:
    """The mean of `values - baseline_values`, pair by pair, with its two-sided t interval.

    Pairs are runs of the same seed: the same token order, so that what the seed does to both cancels. The
    interval covers what the seed changes (initial weights, token order), not another text or another size.

    Args:
        values: one value for each seed, of the variant.
        baseline_values: of the baseline, in the same order of seeds.
        confidence: of the interval, above 0 and below 1.
        power: the chance of being seen that `detectable` is for, above `1 - confidence` and below 1.

    Returns:
        `difference_mean`; `interval_low` and `interval_high`; `p`, of the two-sided t test that the true difference
        is 0; `detectable`, the smallest true difference that the test would find with `power` (see
        `detectable_difference`); `confidence`; `seeds`, the number of pairs. With one pair there is no interval: those
        four are None.

    Raises:
        ValueError: no pairs, unequal lengths, a value that is not finite, a confidence or power out of range.
    """
    _check(values, baseline_values, confidence)
    differences = [value - base for value, base in zip(values, baseline_values, strict=True)]
    pairs, mean = len(differences), fmean(differences)
    low = high = p = detectable = None
    if pairs > 1:
        deviation = stdev(differences)
        half = float(stats.t.ppf((1 + confidence) / 2, pairs - 1)) * deviation / math.sqrt(pairs)
        low, high = mean - half, mean + half
        p = _p_value(mean, deviation / math.sqrt(pairs), pairs - 1)
        detectable = detectable_difference(deviation, pairs, confidence, power)
    return {
        "difference_mean": mean,
        "interval_low": low,
        "interval_high": high,
        "p": p,
        "detectable": detectable,
        "confidence": confidence,
        "seeds": pairs,
    }


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p values corrected for their number by Holm's step-down method (Holm, 1979); None stays None and counts not.

    All hypotheses whose corrected value is below alpha can be rejected with a chance of at most alpha of one false
    rejection among them, whatever their dependence.
    """
    order = sorted((p, place) for place, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        corrected[place] = largest
    return corrected


def detectable_difference(deviation: float, pairs: int, confidence: float = 0.95, power: float = 0.8) -> float:
    """The smallest true mean difference that a two-sided paired t test finds with probability `power`.

    `deviation` is the standard deviation of the differences, taken as the true one; the result has its unit.
    With noncentrality d = difference sqrt(pairs) / deviation, the test finds it with probability
    P(|T(pairs - 1, d)| > t(pairs - 1, (1 + confidence) / 2)), T being noncentral t. The square of T is
    noncentral F, which SciPy computes for both tails at once and without its noncentral t's NaNs.

    Raises:
        ValueError: fewer than two pairs, a negative deviation, a confidence or power out of range.
    """
    if pairs < 2:
        raise ValueError(f"pairs must be 2 or more, got {pairs}: one pair has no spread")
    if not (deviation >= 0 and math.isfinite(deviation)):
        raise ValueError(f"deviation must be finite and not negative, got {deviation}")
    if not 0 < 1 - confidence < power < 1:
        raise ValueError(f"need 0 < 1 - confidence < power < 1, got confidence {confidence} and power {power}")
    freedom = pairs - 1
    critical = float(stats.t.ppf((1 + confidence) / 2, freedom)) ** 2

    def lacking(shift: float) -> float:
        return float(stats.ncf.sf(critical, 1, freedom, shift**2)) - power

    upper = 1.0
    while lacking(upper) < 0:
        upper *= 2
    return float(optimize.brentq(lacking, 1e-9, upper)) * deviation / math.sqrt(pairs)


def _p_value(mean: float, error: float, freedom: int) -> float:
    if error == 0:
        return float(mean == 0)
    return 2 * float(stats.t.sf(abs(mean) / error, freedom))


def _check(values: Sequence[float], baseline_values: Sequence[float], confidence: float) -> None:
    if not values or len(values) != len(baseline_values):
        sizes = f"{len(values)} and {len(baseline_values)}"
        raise ValueError(f"values and baseline_values must be pairs, one or more: got {sizes}")
    if not all(map(math.isfinite, [*values, *baseline_values])):
        raise ValueError("values and baseline_values must be finite: leave out a run that broke down, and say so")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be above 0 and below 1, got {confidence}")
