"""Part 4: DIFF V2 in full, change by change."""

from __future__ import annotations

import math

from diffattn.lesson.attention import Matrix, softmax_attention, subtract
from diffattn.lesson.layers import EPSILON, V2, heads_of, join, linear, ordinary_layer
from diffattn.lesson.pages.part import Column, Exercise, Part, Step, Table
from diffattn.lesson.parts.examples import example_v2
from diffattn.lesson.parts.without_norm import sizes_without_a_norm, two_lambdas

__all__ = ["PART", "as_ordinary", "half_split"]

HEADS, KV_HEADS, WIDTH = 4, 2, 4


def as_ordinary(layer: V2, x: Matrix) -> Matrix:
    """V2 as ordinary attention with 2H heads, whose output weight for a second map is -lambda Wo, token by token."""
    out = []
    joined = ordinary_layer(x, layer.q, layer.k, layer.v, layer.width)
    lambdas = list(zip(*layer.lambdas(x), strict=True))
    for row, lam in zip(joined, lambdas, strict=True):
        weight = [_interleaved(channel, lam, layer.width) for channel in layer.o]
        out += linear([row], weight)
    return out


def _interleaved(channel: list[float], lam: tuple[float, ...], width: int) -> list[float]:
    """A row of Wo `[H D]` as a row `[2H D]`: each head's piece, then the same times -lambda."""
    pieces = [channel[start : start + width] for start in range(0, len(channel), width)]
    return [
        value for piece, factor in zip(pieces, lam, strict=True) for f in (1.0, -factor) for value in _times(piece, f)
    ]


def _times(row: list[float], factor: float) -> list[float]:
    return [factor * value for value in row]


def half_split(layer: V2, x: Matrix) -> Matrix:
    """The same weights with map i paired with map i + H, the mistake that raises no error."""
    maps, keys, values = (heads_of(linear(x, weight), layer.width) for weight in (layer.q, layer.k, layer.v))
    attended = softmax_attention(maps, keys, values)
    pairs = zip(attended[: len(maps) // 2], attended[len(maps) // 2 :], layer.lambdas(x), strict=True)
    return linear(join([subtract(first, second, lam) for first, second, lam in pairs]), layer.o)


def change_by_change() -> Step:
    return Step(
        heading="Five changes, and what each buys",
        text=(
            "V2 starts again from the baseline's own heads, keys and values, and adds only second queries and a "
            "projection for lambda. The reasons are the authors'; they published the order of their ablations and no "
            "numbers.",
        ),
        formula="q = x Wq (2H maps of d)    k = x Wk, v = x Wv (Hkv heads of d)\n"
        "lam = x Wlam (H a token)\n"
        "a = attention(q, k, v)      ONE ordinary call with 2H query heads\n"
        "out = a[0::2] - sigmoid(lam) * a[1::2]                y = concat(out) Wo",
        table=Table(
            (Column("V1 had"), Column("V2 has"), Column("trouble in V1"), Column("what it buys")),
            [
                ("half the heads, a key for each map", "all heads, two queries each, one key for both maps",
                 "heads, keys and values cut anew, unlike the baseline's",
                 "simpler: keys, values and Wo are the baseline's own; Wq alone doubles"),
                ("values of width 2d", "values of width d, shared by both maps",
                 "kernels want one width; the official code makes two calls or four, and reads V twice",
                 "faster: one ordinary call reads the cache once"),
                ("lambda from four vectors and a depth schedule", "lambda = x Wlam",
                 "one lambda for all heads and tokens, and a schedule to choose",
                 "simpler: no exp, no lambda_init, no layer index; each token and head has its own"),
                ("lambda without a bound", "sigmoid: between 0 and 1",
                 "exp can overflow, and a large lambda turns the map over",
                 "more stable: without the sigmoid loss was higher and training less stable"),
                ("head norm, then 1 - lambda_init", "nothing",
                 "the norm multiplies a small context, and its gradient, by nearly as much as it is small",
                 "more stable, simpler: lambda by token does its work"),
            ],
        ),
        corrections=(
            "'V2 replaced the norm by a special initialisation', or 'it projects 2H heads down'. Neither: the "
            "subtraction brings 2H heads to H, and Wo is the baseline's.",
            "'The norm breaks at 70B.' That has no source. The claim is of large models late in training; the public "
            "report of loss spikes is of a 7B.",
            "'V1 needs its own kernels and reads the values twice.' The official code does, by two calls or four. One "
            "ordinary call does it too: queries [q1, 0] and [0, q2] against keys [k1, k2].",
        ),
        shows="Faster by one ordinary call on the baseline's cache, simpler by a projection for lambda, more stable by "
        "the sigmoid and without the norm.",
    )  # fmt: skip


def the_same_as_ordinary() -> Step:
    layer, x = example_v2()
    first, second = layer(x), as_ordinary(layer, x)
    return Step(
        heading="V2 is ordinary attention with a tied output weight",
        text=(
            "Take ordinary attention with 2H heads on the same keys and values. Let the output weight of each first "
            "map be Wo, and of each second map be -sigmoid(lam) Wo. That is V2, to the last digits:",
            f"({HEADS} heads of width {WIDTH} on {KV_HEADS} key/value heads, {len(x)} tokens.)",
        ),
        formula="y = [a[0::2], a[1::2]] [Wo; -sigmoid(lam) Wo]",
        table=Table(
            (Column("compared"), Column("value", "measured", ".1e"), Column("value", "derived", ".1f")),
            [
                ("largest entry of V2's output", _largest(first), None),
                ("largest difference to ordinary attention with 2H heads", _distance(first, second), 0.0),
            ],
        ),
        shows="V2 saves the second output weight, not the second map: that is the '25 %' of its authors, against a "
        "Transformer with 2H heads.",
    )


def the_pairing() -> Step:
    layer, x = example_v2()
    groups = {"adjacent: 2i with 2i + 1": 1, "half-split: i with i + H": HEADS}
    share = 2 * HEADS // KV_HEADS
    rows = [
        (name, sum(_first(i, step) // share == (_first(i, step) + step) // share for i in range(HEADS)), HEADS)
        for name, step in groups.items()
    ]
    right, wrong = layer(x), half_split(layer, x)
    outputs = [(_largest(out), _distance(right, out)) for out in (right, wrong)]
    return Step(
        heading="The pairing matters, and nothing complains",
        text=(
            "Consecutive query heads share a key/value head. Adjacent maps therefore fall into one group and see the "
            "same keys and values, so that what both hold can cancel. Pairing the front half with the back half mixes "
            "groups. Both run without an error:",
        ),
        table=Table(
            (
                Column("pairing"),
                Column("pairs on one key/value head", "measured", "d"),
                Column("of", form="d"),
                Column("largest entry of the output", "measured", ".3f"),
                Column("largest change of an entry", "measured", ".3f"),
            ),
            [(*row, *output) for row, output in zip(rows, outputs, strict=True)],
        ),
        shows="Half-split pairing subtracts attention to other keys: the output changes by as much as it is large. The "
        "authors found it unstable at large learning rates and higher in loss.",
    )


def _first(head: int, step: int) -> int:
    """The first map of an output head, where the second follows at a distance of `step`."""
    return 2 * head if step == 1 else head


def exercises() -> tuple[Exercise, ...]:
    n, lam = 8_192, 0.8
    size = (1 - lam) / math.sqrt(n)
    return (
        Exercise(
            "Why could the norm go in V2, when V1 lost its gain without it?",
            "It evened out heads whose contexts differed in size, because one unbounded lambda served a whole layer. "
            "V2's lambda is bounded and chosen by token and head: the context stays between 0 and sqrt 2 for "
            "uncorrelated values, and a head that finds nothing can fall silent instead of being amplified.",
        ),
        Exercise(
            f"In a V1 layer lambda is {lam}. Both maps of a head spread evenly over n = {n:,} uncorrelated values of "
            "RMS 1. By how much does the head norm multiply the context?",
            f"The signed row is evenly (1 - lambda)/n, so the RMS is (1 - {lam})/sqrt(n) = {size:.5f}. The norm "
            f"multiplies it by 1/sqrt(RMS^2 + {EPSILON:.5f}) = {1 / math.sqrt(size**2 + EPSILON):.0f}, and the "
            f"gradient as well. Without eps it would be {1 / size:.0f}; the most it can be is {EPSILON**-0.5:.0f}.",
        ),
        Exercise(
            "Which control should a test of V2 have beside the ordinary baseline?",
            "Gated attention: its context can fall to 0 for the same reason, without a second map. The authors did not "
            "publish this control.",
        ),
    )


def _distance(a: Matrix, b: Matrix) -> float:
    return max(abs(x - y) for r, s in zip(a, b, strict=True) for x, y in zip(r, s, strict=True))


def _largest(a: Matrix) -> float:
    return max(abs(x) for row in a for x in row)


PART = Part(
    number=4,
    title="V2 in full",
    minutes=5,
    aim="walk from V1 to V2 and say which change makes it faster, which simpler, which more stable, and why.",
    steps=(change_by_change, the_same_as_ordinary, the_pairing, sizes_without_a_norm, two_lambdas),
    exercises=exercises,
)
