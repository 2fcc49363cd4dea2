"""Part 10, continued: answers to what is not there, and near-duplicates cited in the needle's place."""

from __future__ import annotations

import math
import random

from diffattn.lesson.estimates import Share
from diffattn.lesson.pages.part import Cell, Column, Step, Table, both
from diffattn.lesson.parts.haystack import (
    LENGTHS,
    MAPS,
    MARGIN,
    STRENGTH,
    above,
    asked,
    hay_chance,
    haystacks,
    largest,
    mean_sums,
    model,
    sums,
)
from diffattn.planning.noise_model import NoiseModel

__all__ = ["FRACTION", "absent_keys", "near_duplicates", "wrong_chance"]

FRACTION = 0.75
LENGTH, CORRELATION, LAMBDA, GAP = 256, 0.9, 0.8, 1.0
# What the second map holds of the needle and of the near-duplicate, the correlation, and lambda.
CASES = {
    "softmax": (0.0, 0.0, CORRELATION, 0.0),
    "neither": (0.0, 0.0, CORRELATION, LAMBDA),
    "both alike": (2.0, 2.0, CORRELATION, LAMBDA),
    "both alike, rho 0": (2.0, 2.0, 0.0, LAMBDA),
    "the duplicate alone": (0.0, 3.0, CORRELATION, LAMBDA),
}


def absent_keys() -> Step:
    rows: list[tuple[Cell, ...]] = [
        (n, name, _invented(*asked(n, rho)), 1 - _nothing_chance(*asked(n, rho)))
        for n in LENGTHS
        for name, rho in MAPS.items()
    ]
    softmax, alone, shared = (1 - _nothing_chance(*asked(LENGTHS[0], rho)) for rho in MAPS.values())
    return Step(
        heading="When the key is not there",
        text=(
            "Now no needle is in the haystack, and the right answer is none. Softmax always puts its weight somewhere, "
            "so a rule is needed: answer only if the largest weight reaches a threshold. It is set for each attention "
            f"at {FRACTION:g} of the weight that its needle has when it is there (so that it answers when it is). An "
            "answer to an absent key is invented.",
        ),
        formula=f"threshold t = {FRACTION:g} (p1 - lam p2)\n"
        "invented = 1 - P(e^(s x)/Z1 - lam e^(s y)/Z2 < t)^(N-1),    Z1 and Z2 without the needle",
        table=Table(
            (Column("N", form=","), Column("maps"), *both("invented", ".4f")),
            rows,
        ),
        shows=f"With shared noise fewer answers are invented at every length ({shared:.2f} against {softmax:.2f} at "
        f"{LENGTHS[0]} keys); without it hardly fewer ({alone:.2f}), and with length all invent more.",
    )


def _level(found: NoiseModel, lam: float) -> float:
    return FRACTION * found.match_weight(lam)


def _invented(found: NoiseModel, lam: float) -> Share:
    stacks, level = haystacks(found.correlation)[found.length], _level(found, lam)
    return Share(sum(largest(pair, lam, sums(pair)) >= level for pair in stacks), len(stacks))


def _nothing_chance(found: NoiseModel, lam: float) -> float:
    return hay_chance(found, lam, _level(found, lam), mean_sums(found))


def near_duplicates() -> Step:
    return Step(
        heading="Near-duplicates",
        text=(
            f"Beside the needle (m = {MARGIN:g}) stands a near-duplicate: its score is {GAP:g} lower in the first map, "
            f"plus noise of s = {STRENGTH:g}. Here N = {LENGTH}, rho = {CORRELATION} unless said, lambda = {LAMBDA}. "
            "The wrong source is cited where the near-duplicate's signed weight is above the needle's. The rows differ "
            "in what the second map holds: m2 of the needle and of the near-duplicate.",
        ),
        formula=f"softmax: wrong = Phi(-gap/s) = Phi(-{GAP / STRENGTH:g})",
        table=Table(
            (
                Column("the second map knows"),
                Column("m2, needle", form="g"),
                Column("m2, duplicate", form="g"),
                *both("wrong source", ".4f"),
            ),
            [
                (name if lam else "(softmax)", m2, k, _wrong(name), wrong_chance(name))
                for name, (m2, k, _, lam) in CASES.items()
            ],
        ),
        shows=f"Of {wrong_chance('softmax'):.3f} wrong sources a blind map leaves {wrong_chance('neither'):.3f}, "
        f"one that knows both leaves {wrong_chance('both alike'):.3f} where noise is shared and "
        f"{wrong_chance('both alike, rho 0'):.3f} where not, one that knows the near-duplicate alone "
        f"{wrong_chance('the duplicate alone'):.3f}.",
    )


def _wrong(name: str) -> Share:
    """How often the near-duplicate has the larger signed weight."""
    m2, k, rho, lam = CASES[name]
    normal, count, stacks = random.Random(101).gauss, 0, haystacks(rho)[LENGTH]
    for pair in stacks:
        x, z = normal(0, 1), normal(0, 1)
        y = rho * x + math.sqrt(1 - rho**2) * z
        copy = (MARGIN - GAP + STRENGTH * x, k + STRENGTH * y)
        z1, z2 = sums(pair, (MARGIN, m2), copy)
        needle, other = (math.exp(a) / z1 - lam * math.exp(b) / z2 for a, b in ((MARGIN, m2), copy))
        count += other > needle
    return Share(count, len(stacks))


def wrong_chance(name: str) -> float:
    """The chance of it; the near-duplicate is in the sums with its mean."""
    m2, k, rho, lam = CASES[name]
    found, spread = model(LENGTH, rho, m2), STRENGTH**2 / 2
    z1, z2 = mean_sums(found, (MARGIN, m2), (MARGIN - GAP + spread, k + spread))
    level = math.exp(MARGIN) / z1 - lam * math.exp(m2) / z2
    return above(found, lam, level, (z1, z2), (MARGIN - GAP, k))
