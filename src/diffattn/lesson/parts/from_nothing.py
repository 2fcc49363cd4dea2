"""Part 2: the operator from nothing, on four tokens."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable

from diffattn.lesson.attention import Heads, Matrix, attention_map, diff_attention, product, softmax, subtract
from diffattn.lesson.pages.part import Cell, Column, Exercise, Part, Step, Table, both
from diffattn.lesson.parts.examples import random_heads
from diffattn.lesson.parts.traps import traps

__all__ = ["LAMBDA", "PART", "example"]

LAMBDA = 0.4
TOKENS = ("fact", "filler", "lure", "question")
# Scores that each query (row) gives to each key. The lure draws both maps; the fact draws the first alone.
FIRST_SCORES = ((0.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), (0.5, 0.0, 1.0, 0.0), (3.0, 0.5, 2.5, 0.0))
SECOND_SCORES = ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.5, 2.5, 0.0))
VALUES = [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]


def example() -> tuple[Matrix, Matrix, Matrix]:
    """Queries of both maps and the keys, of width 4: with unit vectors as keys, q.k / sqrt 4 is half of q's entry."""
    keys = [[float(i == j) for j in range(4)] for i in range(4)]
    return [[2 * x for x in row] for row in FIRST_SCORES], [[2 * x for x in row] for row in SECOND_SCORES], keys


def safe_softmax() -> Step:
    scores = ([0.0, 1.0, 2.0], [1000.0, 1001.0, 1002.0], [-1000.0, 0.0, 0.0])
    return Step(
        heading="Softmax that cannot overflow",
        text=(
            "e^1000 is too large for a float. Subtracting the largest score from all of them divides above and below "
            "by the same number, so no weight changes, and no exponent is above 0.",
        ),
        formula=_source(softmax),
        table=Table(
            (
                Column("scores"),
                Column("by the formula as it stands", "measured"),
                Column("with the maximum subtracted", "measured"),
                Column("sum", "measured", ".6f"),
            ),
            [(_listed(row, "g"), _naive(row), _listed(softmax(row)), sum(softmax(row))) for row in scores],
        ),
        shows="The weights of a softmax are positive and sum to 1: it can never say 'nothing here', which is where the "
        "floor comes from.",
    )


def two_maps() -> Step:
    q1, q2, keys = example()
    first, second = attention_map(q1, keys), attention_map(q2, keys)
    signed = subtract(first, second, [LAMBDA] * 4)
    maps = {"A1": first, "A2": second, "A1 - lam A2": signed}
    rows: list[tuple[Cell, ...]] = [
        (name, TOKENS[i], *row[: i + 1], *[None] * (3 - i), sum(row))
        for name, a in maps.items()
        for i, row in enumerate(a)
    ]
    return Step(
        heading="Two maps and their difference",
        text=(
            "Four tokens: a fact, a filler, a lure that looks like what is asked for, and the question. Each query has "
            "two versions, so there are two softmax maps. Both fall for the lure; only the first sees the fact.",
            f"The second map, times lambda = {LAMBDA}, is taken from the first. A query sees itself and what came "
            "before; a dash is a key it may not see. Lambda must be small here: of so few tokens the fact alone holds "
            "more than half of the first map, so the noise to be taken is less than half.",
        ),
        formula="A = softmax(q1 k^T / sqrt d) - lam softmax(q2 k^T / sqrt d)",
        table=Table(
            (
                Column("map"),
                Column("query"),
                *(Column(f"on {token}", "measured") for token in TOKENS),
                Column("row sum", "measured"),
            ),
            rows,
        ),
        shows=f"In the question's row the lure falls from {first[3][2]:.2f} to {signed[3][2]:.2f}, while the fact "
        f"keeps {signed[3][0]:.2f} of {first[3][0]:.2f}.",
    )


def what_cancels() -> Step:
    rng = random.Random(3)
    q1, q2, k, v = (random_heads(rng, *shape) for shape in ((2, 6, 4), (2, 6, 4), (1, 6, 4), (1, 6, 3)))
    same = _largest(diff_attention(q1, q1, k, v, 1.0))
    half = _largest(diff_attention(q1, q1, k, v, 0.5))
    whole = _largest(diff_attention(q1, q1, k, v, 0.0))
    sums = [sum(row) for row in subtract(attention_map(q1[0], k[0]), attention_map(q2[0], k[0]), [LAMBDA] * 6)]
    return Step(
        heading="What cancels, and what stays",
        text=(
            "Write each map as what both share plus what it has alone: A1 = C + B1, A2 = C + B2. Then "
            "A1 - lam A2 = (1 - lam) C + B1 - lam B2. The shared part shrinks by 1 - lam, whatever it is. What the "
            "second map has alone comes in with a minus sign: it is new noise.",
            "Both maps' rows sum to 1, so a row of the difference sums to 1 - lam. Random queries, keys and values "
            "verify it:",
        ),
        formula="A1 - lam A2 = (1 - lam) C + B1 - lam B2",
        table=Table(
            (Column("check"), *both("value", ".3g")),
            [
                (f"smallest row sum, lambda {LAMBDA}", min(sums), 1 - LAMBDA),
                (f"largest row sum, lambda {LAMBDA}", max(sums), 1 - LAMBDA),
                ("the same map twice, lambda 1: largest output", same, 0.0),
                ("the same map twice, lambda 0.5: output over softmax's", half / whole, 0.5),
            ],
        ),
        shows="What both maps share cancels, to the last bit at lambda 1; what only one of them has stays.",
    )


def the_product() -> Step:
    q1, q2, keys = example()
    first = product(attention_map(q1, keys), VALUES)[3]
    signed = diff_attention([q1], [q2], [keys], [VALUES], LAMBDA)[0][3]
    return Step(
        heading="The product with V",
        text=(
            "The signed weights mix the values. Here the fact carries the value (1, 0) and the lure (0, 1), so the "
            "output of the question's row says how much of each arrived.",
            "The whole operator is src/diffattn/lesson/attention.py. It takes lists and knows no tensors, and the "
            "tests hold it against the real one to 12 digits. Read it now; this is its core:",
        ),
        formula=_source(subtract) + "\n\n" + _source(product),
        table=Table(
            (
                Column("attention"),
                Column("from the fact", "measured"),
                Column("from the lure", "measured"),
                Column("fact over lure", "measured", ".2f"),
            ),
            [("softmax", *first, first[0] / first[1]), ("differential", *signed, signed[0] / signed[1])],
        ),
        shows="The output is a little smaller and much purer: a later layer can scale it up, but could not unmix it.",
    )


def exercises() -> tuple[Exercise, ...]:
    q1, q2, keys = example()
    over = subtract(attention_map(q1, keys), attention_map(q2, keys), [1.0] * 4)[3]
    return (
        Exercise(
            "In the worked example set lambda to 1. What are the weights of the question's row, and what is their sum?",
            f"{_listed(over)}: they sum to 0. The lure's weight is now negative: lambda 1 takes more of it than there "
            "was, and the output holds the lure again, with the sign turned.",
        ),
        Exercise(
            "Why does masking belong before each softmax and not after the subtraction?",
            "A softmax that has seen future keys has already given them weight, and its sum includes them. Setting "
            "those entries to 0 afterwards leaves rows that no longer sum to 1 - lambda, and leaks the future "
            "through the sum.",
        ),
        Exercise(
            "One query is decoded against four cached keys. Which keys must it see, and what does a mask aligned to "
            "the upper left corner show it?",
            "It is the last token and must see all four: query i of Tq sees keys up to i + Tk - Tq. Aligned to the "
            "upper left it would see key 0 alone.",
        ),
    )


def _source(function: Callable[..., object]) -> str:
    """A function's source without its docstring."""
    lines = inspect.getsource(function).splitlines()
    return "\n".join(line for line in lines if '"""' not in line)


def _naive(scores: list[float]) -> str:
    try:
        powers = [math.exp(score) for score in scores]
    except OverflowError:
        return "OverflowError"
    return _listed([power / sum(powers) for power in powers])


def _listed(values: list[float], form: str = ".3f") -> str:
    return ", ".join(f"{value:{form}}" for value in values)


def _largest(heads: Heads) -> float:
    return max(abs(value) for rows in heads for row in rows for value in row)


PART = Part(
    number=2,
    title="The operator from nothing",
    minutes=6,
    aim="build differential attention in plain Python, verify what it cancels, and name the traps of its code.",
    steps=(safe_softmax, two_maps, what_cancels, the_product, traps),
    exercises=exercises,
)
