"""A measured number with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import truediv

from diffattn.planning.sample_size import t_quantile

__all__ = ["Estimate", "Share", "estimate", "mean", "ratio"]

NORMAL = 1.959963984540054  # the 97.5 % point of the normal distribution


@dataclass(frozen=True)
class Estimate:
    """Attributes: the value, its standard error, and the number of independent draws behind it (2 or more)."""

    value: float
    error: float
    draws: int

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval, by Student's t."""
        return t_quantile(self.draws - 1) * self.error

    @property
    def edges(self) -> tuple[float, float, float]:
        """Lower end of the interval, value, upper end."""
        return self.value - self.half, self.value, self.value + self.half


@dataclass(frozen=True)
class Share:
    """How many of so many draws came out one way, with Wilson's interval, which is honest where all or none did."""

    count: int
    draws: int

    @property
    def value(self) -> float:
        return self.count / self.draws

    @property
    def edges(self) -> tuple[float, float, float]:
        """Lower end of the 95 % interval, value, upper end."""
        low, high = self.interval(NORMAL)
        return low, self.value, high

    def interval(self, z: float) -> tuple[float, float]:
        """The chances from which this share lies at most z of their own standard errors away."""
        weight = z * z / self.draws
        middle = (self.value + weight / 2) / (1 + weight)
        half = math.sqrt(weight * (self.value * (1 - self.value) + weight / 4)) / (1 + weight)
        return max(0.0, middle - half), min(1.0, middle + half)


def estimate(statistic: Callable[..., float], *columns: Sequence[float]) -> Estimate:
    """A statistic of the columns' means, with the jackknife's standard error: how it moves when one draw is left out.

    Args:
        statistic: takes one mean for each column.
        columns: one number for each draw, all of one length.
    """
    count = len(columns[0])
    totals = [math.fsum(column) for column in columns]
    value = statistic(*(total / count for total in totals))
    left = [
        statistic(*((total - out) / (count - 1) for total, out in zip(totals, draw, strict=True)))
        for draw in zip(*columns, strict=True)
    ]
    middle = math.fsum(left) / count
    spread = math.fsum((x - middle) ** 2 for x in left)
    return Estimate(value, math.sqrt(spread * (count - 1) / count), count)


def mean(values: Sequence[float]) -> Estimate:
    return estimate(lambda x: x, values)


def ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """The ratio of the two means. (A mean of ratios would be another number, and is drawn off by small divisors.)"""
    return estimate(truediv, above, below)
