"""The setting of part 10: haystacks drawn and searched, and the chance that a key's signed weight passes a level."""

from __future__ import annotations

import math
from functools import cache

from diffattn.lesson.draws import Pair, normals, pieces, scored
from diffattn.lesson.estimates import Share
from diffattn.planning.noise_model import NoiseModel
from diffattn.planning.normal import tail

__all__ = [
    "LENGTHS",
    "MAPS",
    "MARGIN",
    "STRENGTH",
    "above",
    "asked",
    "hay_chance",
    "haystacks",
    "hit_chance",
    "hits",
    "largest",
    "mean_sums",
    "model",
    "sums",
]

LENGTHS = (256, 512, 1_024, 2_048, 4_096)
MARGIN, STRENGTH, ROWS = 3.5, 1.0, 40
MAPS: dict[str, float | None] = {"softmax": None, "rho 0": 0.0, "rho 0.9": 0.9}  # the correlation of the two maps
FAR, STEPS = 9.0, 1_200  # the integral's ends, in standard deviations, and its steps: an even number

Sums = tuple[float, float]


def model(length: int, correlation: float, second_margin: float = 0.0) -> NoiseModel:
    return NoiseModel(
        length=length, margin=MARGIN, strength=STRENGTH, correlation=correlation, second_margin=second_margin
    )


def asked(length: int, correlation: float | None) -> tuple[NoiseModel, float]:
    """The haystack and the best lambda for one of `MAPS`; softmax has lambda 0."""
    found = model(length, 0.9 if correlation is None else correlation)
    return found, 0.0 if correlation is None else found.best_lambda()


@cache
def haystacks(correlation: float) -> dict[int, list[Pair]]:
    """A few rows of the greatest length, cut into haystacks of every length: of short ones there are many."""
    rows = [scored(model(max(LENGTHS), correlation), row) for row in _rows()]
    return {length: [piece for row in rows for piece in pieces(row, length - 1)] for length in LENGTHS}


@cache
def _rows() -> list[Pair]:
    return normals(max(LENGTHS) - 1, ROWS, seed=100)


def sums(pair: Pair, *scores: tuple[float, float]) -> Sums:
    """What the two softmaxes divide by in one haystack that also holds keys with these scores."""
    return _with(scores, math.fsum(pair[0]), math.fsum(pair[1]))


def mean_sums(found: NoiseModel, *scores: tuple[float, float]) -> Sums:
    """`sums` of the mean haystack."""
    return _with(scores, *((found.length - 1) * math.exp(s * s / 2) for s in (found.strength, found.s2)))


def _with(scores: tuple[tuple[float, float], ...], z1: float, z2: float) -> Sums:
    return z1 + sum(math.exp(a) for a, _ in scores), z2 + sum(math.exp(b) for _, b in scores)


def largest(pair: Pair, lam: float, z: Sums) -> float:
    """The largest signed weight of the hay."""
    if not lam:
        return max(pair[0]) / z[0]
    a, b = 1 / z[0], lam / z[1]
    return max([a * x - b * y for x, y in zip(*pair, strict=True)])


@cache
def hits(found: NoiseModel, lam: float) -> Share:
    """In how many haystacks the needle has the largest signed weight."""
    stacks, count, needle = haystacks(found.correlation)[found.length], 0, (found.margin, found.second_margin)
    for pair in stacks:
        z = sums(pair, needle)
        count += largest(pair, lam, z) < math.exp(needle[0]) / z[0] - lam * math.exp(needle[1]) / z[1]
    return Share(count, len(stacks))


def hit_chance(found: NoiseModel, lam: float) -> float:
    """Chance that the needle has the largest signed weight; for softmax Phi(m/s)^(N-1)."""
    if not lam:
        return found.largest_chance
    level = found.match_weight(lam)
    return hay_chance(found, lam, level, mean_sums(found, (found.margin, found.second_margin))) if level >= 0 else 0.0


def hay_chance(found: NoiseModel, lam: float, level: float, z: Sums) -> float:
    """Chance that no hay passes the level: (1 - chance of one)^(N-1)."""
    return math.exp((found.length - 1) * math.log1p(-above(found, lam, level, z)))


def above(found: NoiseModel, lam: float, level: float, z: Sums, scores: tuple[float, float] = (0.0, 0.0)) -> float:
    """Chance that one key's signed weight is above `level`.

    Args:
        found: strengths and correlation of the key's noise.
        lam: lambda.
        level: a signed weight, above 0.
        z: what the two softmaxes divide by.
        scores: what the key scores in either map, but for its noise.
    """
    own = math.sqrt(1 - found.correlation**2)

    def inside(y: float) -> float:
        """The chance where the key's noise in the second map is y standard deviations, times the density of y."""
        needed = math.log(z[0] * (level + lam * math.exp(scores[1] + found.s2 * y) / z[1])) - scores[0]
        return tail((needed / found.strength - found.correlation * y) / own) * math.exp(-y * y / 2)

    step = 2 * FAR / STEPS
    weights = (1 if i in (0, STEPS) else 4 if i % 2 else 2 for i in range(STEPS + 1))
    whole = sum(weight * inside(-FAR + i * step) for i, weight in enumerate(weights))
    return whole * step / 3 / math.sqrt(2 * math.pi)
