"""The standard normal distribution where `statistics.NormalDist` loses its tail."""

from __future__ import annotations

import math

__all__ = ["tail"]


def tail(x: float) -> float:
    """Phi(-x), the chance that a standard normal exceeds x, with its digits kept far out."""
    return math.erfc(x / math.sqrt(2)) / 2
