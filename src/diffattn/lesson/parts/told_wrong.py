"""Part 1, continued: numbers about the noise floor that are often told wrong."""

from __future__ import annotations

import math
import random

from diffattn.lesson.attention import dot
from diffattn.lesson.contexts import LENGTHS, STRENGTH
from diffattn.lesson.estimates import mean
from diffattn.lesson.pages.part import Column, Step, Table, both
from diffattn.planning.noise_model import NoiseModel

__all__ = ["your_own_numbers"]


def your_own_numbers() -> Step:
    width, claim = 64, 127_999 * 0.001 / 100
    query, products = _products(width)
    squared, odds = dot(query, query), 0.08 / 0.92 / (1_000 - 1)
    spread = mean([x * x for x in products])
    scaled = mean([x * x / width for x in products])
    sharp = 5 * squared / math.sqrt(width)
    floor = NoiseModel(length=LENGTHS[-1], margin=sharp, strength=STRENGTH).noise_mass()
    later = [odds * (n - 1) / (1 + odds * (n - 1)) for n in (10_000, 100_000)]
    return Step(
        heading="Four numbers that are often told wrong",
        text=(
            f"A query q of width {width} meets {len(products):,} keys drawn at random. Its products q.k scatter by its "
            "own length; the score that softmax takes is the product over sqrt(d).",
            "For the margin and the noise of a trained model: `diffattn noise --model MODEL`.",
        ),
        table=Table(
            (Column("quantity"), *both("value", ".2f")),
            [
                ("variance of q.k: |q|^2", spread, squared),
                ("variance of the score: |q|^2 / d", scaled, squared / width),
                ("score of a key k = 5 q: 5 |q|^2 / sqrt(d)", dot(query, [5 * x for x in query]) / width**0.5, sharp),
            ],
        ),
        corrections=(
            f"'0.001 % on each of 127,999 tokens is 12 %.' It is {100 * claim:.0f} %, more than all there is; "
            f"{10 * claim:.1f} % needs 0.0001 % on each.",
            f"'Set keys[0] = 5 q and watch the noise.' That gives the match a score of {sharp:.0f}, so at "
            f"{LENGTHS[-1]:,} keys the noise mass is {floor:.0e}: no floor to be "
            "seen. Say the margin first.",
            f"'Noise rises from 8 % at 1K to 30 % at 100K.' The odds of the noise grow with N-1, so 8 % at 1K becomes "
            f"{100 * later[0]:.1f} % at 10K and {100 * later[1]:.1f} % at 100K.",
            "'The variance of q.k is |q|^2 / d.' That is the variance of the scaled score; q.k has |q|^2.",
        ),
        shows="A statement about a noise floor means something only with its margin, its noise and its length.",
    )


def _products(width: int) -> tuple[list[float], list[float]]:
    normal = random.Random(2).gauss
    query = [normal(0, 1) for _ in range(width)]
    return query, [dot(query, [normal(0, 1) for _ in range(width)]) for _ in range(3000)]
