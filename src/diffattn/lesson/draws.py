"""Attention to one match among noise, drawn and measured: what `diffattn.planning.noise_model` has in closed form."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from diffattn.lesson.estimates import Estimate, estimate, mean
from diffattn.planning.noise_model import NoiseModel

__all__ = ["Measured", "Pair", "draw", "measure", "normals", "pieces", "scored", "sharpened", "sharper"]

Pair = tuple[list[float], list[float]]  # e^score of the N - 1 other keys, in the first map and in the second


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Means over the draws, each with its interval.

    Attributes:
        match: weight of the match.
        noise_mass: absolute weight of all other keys together.
        negative: how much of that is below zero, as a positive number.
        row_sum: of all weights, the match's included.
        signal_to_noise: the mean weight of the match, without its sign, over the mean absolute weight of another key: a
            ratio of means.
    """

    match: Estimate
    noise_mass: Estimate
    negative: Estimate
    row_sum: Estimate
    signal_to_noise: Estimate


def draw(model: NoiseModel, count: int, seed: int) -> list[Pair]:
    """Draw the scores of the model's N - 1 other keys `count` times, in both maps; the margins play no part."""
    return [scored(model, pair) for pair in normals(model.length - 1, count, seed)]


def normals(keys: int, count: int, seed: int) -> list[Pair]:
    """Standard normal numbers for two maps, independent of each other, `count` times."""
    normal = random.Random(seed).gauss
    return [([normal(0, 1) for _ in range(keys)], [normal(0, 1) for _ in range(keys)]) for _ in range(count)]


def scored(model: NoiseModel, pair: Pair) -> Pair:
    """e^score of keys with the model's strengths and correlation, out of independent standard normal numbers."""
    rho, own, s1, s2 = model.correlation, math.sqrt(1 - model.correlation**2), model.strength, model.s2
    first, second = pair
    other = [math.exp(s2 * (rho * x + own * z)) for x, z in zip(first, second, strict=True)]
    return [math.exp(s1 * x) for x in first], other


def pieces(pair: Pair, size: int) -> list[Pair]:
    """A draw cut into as many of `size` keys as it holds, none of which overlap."""
    first, second = pair
    starts = range(0, len(first) - size + 1, size)
    return [(first[start : start + size], second[start : start + size]) for start in starts]


def measure(model: NoiseModel, pairs: list[Pair], lam: float = 0.0) -> Measured:
    """What attention with this lambda gives to the match and to the rest, over the draws of `draw`."""
    return _summary([_weights(model, pair, lam) for pair in pairs], model.length)


def sharper(model: NoiseModel, factor: float) -> NoiseModel:
    """The model with all scores multiplied by `factor`."""
    return replace(
        model,
        margin=factor * model.margin,
        strength=factor * model.strength,
        second_margin=factor * model.second_margin,
        second_strength=factor * model.s2,
    )


def sharpened(pairs: list[Pair], factor: float) -> list[Pair]:
    """The draws with all scores multiplied by `factor`."""
    return [([x**factor for x in first], [x**factor for x in second]) for first, second in pairs]


def _weights(model: NoiseModel, pair: Pair, lam: float) -> tuple[float, float, float]:
    """Weight of the match, absolute weight of the others, and their plain sum, in one draw."""
    first, second = pair
    signal1, signal2 = math.exp(model.margin), math.exp(model.second_margin)
    a, b = 1 / (signal1 + math.fsum(first)), lam / (signal2 + math.fsum(second))
    others = [x * a - y * b for x, y in zip(first, second, strict=True)] if lam else [x * a for x in first]
    return signal1 * a - signal2 * b, sum(map(abs, others)), sum(others)


def _summary(rows: list[tuple[float, float, float]], length: int) -> Measured:
    matches, masses, sums = zip(*rows, strict=True)
    return Measured(
        match=mean(matches),
        noise_mass=mean(masses),
        negative=mean([(mass - total) / 2 for mass, total in zip(masses, sums, strict=True)]),
        row_sum=mean([match + total for match, total in zip(matches, sums, strict=True)]),
        signal_to_noise=estimate(lambda match, mass: abs(match) / mass * (length - 1), matches, masses),
    )
