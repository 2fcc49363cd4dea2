"""Axes of a chart: range, ticks, and where a value lies."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Axis", "axis", "short"]


@dataclass(frozen=True)
class Axis:
    """A range in data, whether it is logarithmic, and its ticks."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high end; what lies outside is put at the end."""
        low, high, x = (math.log(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return min(1.0, max(0.0, (x - low) / (high - low)))


def axis(values: list[float], log: bool, ticks: tuple[float, ...] = ()) -> Axis:
    """An axis that holds all values, with the given ticks or with round ones."""
    low, high = min([*values, *ticks]), max([*values, *ticks])
    if log:
        low, high = low / 1.1, high * 1.1
        return Axis(low, high, True, ticks or _log_ticks(low, high))
    step = _step((high - low) or 1.0)
    low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
    count = round((high - low) / step)
    return Axis(low, high, False, ticks or tuple(low + step * i for i in range(count + 1)))


def short(value: float) -> str:
    """1,000 as 1K, 256,000 as 256K, 0.1 as 0.1."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{round(value, 10):g}"


def _step(span: float) -> float:
    """A round step that cuts the span into four to nine."""
    power = 10 ** math.floor(math.log10(span / 4))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 9)


def _log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten, with round numbers between them where there would be too few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        ticks = tuple(factor * 10.0**power for power in powers for factor in factors)
        inside = tuple(tick for tick in ticks if low <= tick <= high)
        if len(inside) >= 4:
            return inside
    return inside
