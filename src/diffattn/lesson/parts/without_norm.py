"""Part 4, continued: why V2 needs no norm, and why its lambda cannot overflow."""

from __future__ import annotations

import math
import random
from functools import cache

from diffattn.lesson.attention import subtract
from diffattn.lesson.layers import rms, sigmoid
from diffattn.lesson.pages.part import Column, Step, Table

__all__ = ["sizes_without_a_norm", "two_lambdas"]

KEYS, QUERIES = 16, 2_000
# The largest number of each: 10, 7 and 23 bits after the point, exponents up to 15 and 127.
LARGEST = {"float16": (2 - 2**-10) * 2.0**15, "bfloat16": (2 - 2**-7) * 2.0**127, "float32": (2 - 2**-23) * 2.0**127}


def sizes_without_a_norm() -> Step:
    drawn = _sizes()
    bounds = {"softmax": "1/sqrt(n) to 1", "V2": "0 to sqrt 2", "gated": "0 to 1"}
    return Step(
        heading="How large a context can be without a norm",
        text=(
            f"Each row draws {QUERIES:,} queries over n = {KEYS} values, orthogonal and of RMS 1, with maps from even "
            "to sharp and lambda from near 0 to near 1. (Gated attention multiplies the context by a sigmoid: a "
            "control for V2 with the same argument.)",
            "Softmax cannot go below 1/sqrt(n): it must put its weight somewhere. Both others reach 0, and all are "
            "bounded from above, so no norm is needed. If values are not uncorrelated, softmax too can reach 0, and V2 "
            "stays below 1 + lambda.",
        ),
        table=Table(
            (
                Column("attention"),
                Column("smallest RMS", "measured", ".4f"),
                Column("largest RMS", "measured", ".4f"),
                Column("range", "derived"),
            ),
            [(name, min(values), max(values), bounds[name]) for name, values in drawn.items()],
        ),
        shows="V2 can say 'nothing here' and cannot blow up: by its authors' argument lambda by token does what V1 "
        "needed the norm for.",
    )


@cache
def _sizes() -> dict[str, list[float]]:
    """RMS of contexts; with orthogonal values of RMS 1 it is the root of the sum of the squared weights."""
    rng = random.Random(6)
    found: dict[str, list[float]] = {"softmax": [], "V2": [], "gated": []}
    for _ in range(QUERIES):
        first, second = (_map(rng) for _ in range(2))
        lam = sigmoid(rng.gauss(0, 4))
        size = math.sqrt(KEYS)
        found["softmax"].append(rms(first) * size)
        found["V2"].append(rms(subtract([first], [second], [lam])[0]) * size)
        found["gated"].append(rms(first) * size * lam)
    return found


def _map(rng: random.Random) -> list[float]:
    sharpness = 10 ** rng.uniform(-3, 2)
    powers = [math.exp(sharpness * rng.uniform(-1, 0)) for _ in range(KEYS)]
    return [power / sum(powers) for power in powers]


def two_lambdas() -> Step:
    dots = (-20.0, -2.0, 0.0, 2.0, 10.0, 12.0, 100.0)
    past = {name: math.log(largest) for name, largest in LARGEST.items()}
    return Step(
        heading="Why the sigmoid is safer than the exponential",
        text=(
            "V1's lambda grows as e^x, where x is a product of two learned vectors; V2's is a sigmoid. In float16 e^x "
            f"is infinite past x = {past['float16']:.2f}, in bfloat16 past {past['bfloat16']:.2f}, in float32 past "
            f"{past['float32']:.2f}. Compute V1's lambda in float32, and bound it.",
        ),
        table=Table(
            (
                Column("x", form="g"),
                Column("V1: exp(x)", form=".4g"),
                *(Column(f"fits {name}") for name in LARGEST),
                Column("V2: sigmoid(x)", form=".6f"),
                Column("it is below 1 by", form=".2g"),
            ),
            [(x, math.exp(x), *_fits(math.exp(x)), sigmoid(x), sigmoid(-x)) for x in dots],
        ),
        shows="One large product makes V1's lambda infinite, in float16 soon, in bfloat16 and float32 later. V2's "
        "comes near 1 and is rounded to it at most.",
    )


def _fits(value: float) -> list[str]:
    return ["yes" if value <= largest else "no" for largest in LARGEST.values()]
