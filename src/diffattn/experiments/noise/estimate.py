"""Ratios of means over draws, each with a 95% jackknife interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["Array", "Estimate", "jackknife"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A measured number.

    Attributes:
        value: the statistic of the means over all draws.
        low, high: its interval; None where the number is not finite, so that there is no spread to speak of.
        error: its standard error (of the logarithm, times the value, where the interval is of the logarithm).
    """

    value: float
    low: float | None
    high: float | None
    error: float | None

    def holds(self, expected: float) -> bool:
        """Whether `expected` lies in the interval, rounding apart."""
        if self.low is None or self.high is None:
            return self.value == expected
        rounding = 1e-9 * abs(expected)
        return self.low - rounding <= expected <= self.high + rounding


def jackknife(
    sums: Array, statistic: Callable[[Array], Array], *, positive: bool = False, confidence: float = 0.95
) -> Estimate:
    """The statistic of the means of `sums` with a two-sided interval: the t quantile times the jackknife's error.

    A ratio of means has no standard error of its own; leaving out one draw after the other shows how far it moves.

    Args:
        sums: `[draws, K]`, what was added up in each draw; 2 draws or more.
        statistic: from means `[..., K]` to values `[...]`.
        positive: take the interval of the logarithm, so that a ratio that is above 0 has an interval above 0.
        confidence: of the interval.

    Raises:
        ValueError: fewer than two draws.
    """
    draws = len(sums)
    if draws < 2:
        raise ValueError(f"sums: expected 2 draws or more, got {draws}")
    value = float(statistic(sums.mean(axis=0)))
    left_out = statistic((sums.sum(axis=0) - sums) / (draws - 1))
    if positive and not (value > 0 and (left_out > 0).all()):
        return Estimate(value=value, low=None, high=None, error=None)
    moved = np.log(left_out) if positive else left_out
    if not (math.isfinite(value) and np.isfinite(moved).all()):
        return Estimate(value=value, low=None, high=None, error=None)
    error = float(np.sqrt((draws - 1) * np.var(moved)))
    half = float(stats.t.ppf((1 + confidence) / 2, draws - 1)) * error
    if positive:
        factor = math.exp(min(half, 300.0))
        return Estimate(value=value, low=value / factor, high=value * factor, error=value * error)
    return Estimate(value=value, low=value - half, high=value + half, error=error)
