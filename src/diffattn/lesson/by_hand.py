"""Pairs of runs compared by hand: paired difference, t interval, p value, Holm's correction, what would be seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from diffattn.planning.sample_size import difference_shown, power, t_quantile

__all__ = ["Paired", "holm"]


@dataclass(frozen=True)
class Paired:
    """Values of a variant and of its baseline, seed by seed, two seeds or more."""

    ours: Sequence[float]
    theirs: Sequence[float]

    @property
    def differences(self) -> list[float]:
        return [a - b for a, b in zip(self.ours, self.theirs, strict=True)]

    @property
    def seeds(self) -> int:
        return len(self.ours)

    @property
    def mean(self) -> float:
        return fmean(self.differences)

    @property
    def deviation(self) -> float:
        """Standard deviation of the differences, with seeds - 1 below the root."""
        return stdev(self.differences)

    @property
    def error(self) -> float:
        return self.deviation / math.sqrt(self.seeds)

    @property
    def critical(self) -> float:
        """How many standard errors the 95 % interval reaches to either side."""
        return t_quantile(self.seeds - 1)

    @property
    def interval(self) -> tuple[float, float]:
        half = self.critical * self.error
        return self.mean - half, self.mean + half

    @property
    def t(self) -> float:
        """The mean in standard errors."""
        return self.mean / self.error if self.error else math.copysign(math.inf, self.mean) if self.mean else 0.0

    @property
    def p(self) -> float:
        """Chance of a t at least as far from 0 where there is no true difference."""
        if math.isinf(self.t):
            return 0.0
        return power(0.0, self.seeds - 1, abs(self.t)) if self.t else 1.0

    @property
    def detectable(self) -> float:
        """The smallest true difference that would be found four times in five."""
        return difference_shown(self.seeds, self.deviation)

    @property
    def unpaired_half(self) -> float:
        """Half the interval that the same runs would give if the seeds were not paired, by Welch's t."""
        a, b = (stdev(values) ** 2 / self.seeds for values in (self.ours, self.theirs))
        if not a + b:
            return 0.0
        freedom = (a + b) ** 2 * (self.seeds - 1) / (a * a + b * b)
        return t_quantile(max(1, math.floor(freedom))) * math.sqrt(a + b)


def holm(values: Sequence[float]) -> list[float]:
    """Corrected p values: the smallest times their number, the next times one less, and none below the one before."""
    corrected, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, values[place] * (len(values) - rank)))
        corrected[place] = largest
    return corrected
