"""Intervals that are not of pairs of seeds: over parts of a text, and of a slope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["bootstrap_over_parts", "slope"]

_DRAWS = 10_000


def bootstrap_over_parts(
    differences: Sequence[Sequence[float]], sizes: Sequence[float], confidence: float = 0.95, seed: int = 0
) -> dict[str, Any]:
    """The mean difference of two models a unit of text, with its percentile bootstrap interval over parts of the text.

    It covers which text was measured, the trained models taken as given; the interval over seeds covers the training.

    Args:
        differences: for each seed, the difference of the two models' summed losses on each part.
        sizes: of each part, in the unit that the mean is per.
        confidence: of the interval.
        seed: of the draws; 10,000 draws of as many parts, with replacement.

    Returns:
        `difference_mean`, `interval_low`, `interval_high`, `confidence`, `parts`. With fewer than two parts there is no
        interval: its ends are None.
    """
    total, size = np.mean(np.asarray(differences, dtype=float), axis=0), np.asarray(sizes, dtype=float)
    found = {"difference_mean": float(total.sum() / size.sum()), "confidence": confidence, "parts": len(size)}
    if len(size) < 2:
        return {**found, "interval_low": None, "interval_high": None}
    drawn = np.random.default_rng(seed).integers(len(size), size=(_DRAWS, len(size)))
    means = total[drawn].sum(1) / size[drawn].sum(1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return {**found, "interval_low": float(low), "interval_high": float(high)}


def slope(x: Sequence[float], y: Sequence[float], confidence: float = 0.95) -> dict[str, Any]:
    """The least-squares slope of y over x with its t interval, for errors that are independent and alike.

    Args:
        x, y: of each observation; `x` takes two values or more.
        confidence: of the interval.

    Returns:
        `slope`, `intercept`, `interval_low`, `interval_high`, `p` (that the true slope is 0), `points`. With fewer than
        three observations there is no interval: its ends and p are None.

    Raises:
        ValueError: all x are equal.
    """
    if len(set(x)) < 2:
        raise ValueError(f"x must take two values or more, got {sorted(set(x))}")
    if len(x) < 3:
        rise = (y[1] - y[0]) / (x[1] - x[0])
        ends = dict.fromkeys(("interval_low", "interval_high", "p"))
        return {"slope": rise, "intercept": y[0] - rise * x[0], **ends, "points": len(x)}
    fit = stats.linregress(x, y)
    half = float(stats.t.ppf((1 + confidence) / 2, len(x) - 2)) * float(fit.stderr)
    return {
        "slope": float(fit.slope),
        "intercept": float(fit.intercept),
        "interval_low": float(fit.slope) - half,
        "interval_high": float(fit.slope) + half,
        "p": float(fit.pvalue),
        "points": len(x),
    }
