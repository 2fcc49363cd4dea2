"""Part 1's draws: long rows of noise scores cut into contexts of each length, and what softmax does in them."""

from __future__ import annotations

import math
import random
from functools import cache

from diffattn.lesson.attention import dot
from diffattn.lesson.estimates import Estimate, Share, estimate, mean, ratio

__all__ = [
    "LENGTHS",
    "STRENGTH",
    "contexts",
    "largest_share",
    "match_weight",
    "noise_mass",
    "output_signal_to_noise",
    "signal_to_noise",
]

LENGTHS = (1_000, 4_000, 16_000, 64_000, 256_000)
STRENGTH, ROWS = 1.0, 8

Block = tuple[float, float, float]  # of e^score over the other keys of one context: sum, sum of squares, largest


@cache
def contexts() -> dict[int, list[Block]]:
    """A few rows of the greatest length, cut into contexts of every length: of short ones there are many."""
    normal = random.Random(1).gauss
    found: dict[int, list[Block]] = {length: [] for length in LENGTHS}
    for _ in range(ROWS):
        powers = [math.exp(normal(0, STRENGTH)) for _ in range(max(LENGTHS))]
        for length, blocks in found.items():
            others = length - 1
            for start in range(0, len(powers) - others + 1, others):
                block = powers[start : start + others]
                blocks.append((sum(block), dot(block, block), max(block)))
    return found


def match_weight(length: int, margin: float) -> Estimate:
    return mean([weight for weight, _ in _shares(length, margin)])


def noise_mass(length: int, margin: float) -> Estimate:
    return mean([mass for _, mass in _shares(length, margin)])


def signal_to_noise(length: int, margin: float) -> Estimate:
    """Weight of the match over the mean weight of one other key, a ratio of means."""
    weights, masses = zip(*_shares(length, margin), strict=True)
    return ratio(weights, [mass / (length - 1) for mass in masses])


def output_signal_to_noise(length: int, margin: float) -> Estimate:
    """Weight of the match over the root of the others' summed squares: uncorrelated values of unit variance."""
    signal = math.exp(margin)
    weights = [weight for weight, _ in _shares(length, margin)]
    squares = [squared / (signal + total) ** 2 for total, squared, _ in contexts()[length]]
    return estimate(lambda weight, square: weight / math.sqrt(square), weights, squares)


def largest_share(length: int, margin: float) -> Share:
    """In how many contexts no other key scores above the match."""
    blocks = contexts()[length]
    return Share(sum(largest < math.exp(margin) for _, _, largest in blocks), len(blocks))


def _shares(length: int, margin: float) -> list[tuple[float, float]]:
    """What the match and what all others get, in each context."""
    signal = math.exp(margin)
    return [(signal / (signal + total), total / (signal + total)) for total, _, _ in contexts()[length]]
