"""Part 2, continued: traps in code, sprung in plain Python."""

from __future__ import annotations

import math
import random
import struct
import sys

from diffattn.lesson.attention import Matrix, attention_map, product, softmax, subtract
from diffattn.lesson.layers import rms
from diffattn.lesson.pages.part import Cell, Column, Step, Table

__all__ = ["bfloat16", "changes_by_a_later_key", "rounding_errors", "traps", "weights_on_later_keys"]

CLOSE, CHANNELS, LAMBDA = 1e-3, 2_000, 0.5
LOWEST = -sys.float_info.max  # what torch.finfo(dtype).min is for a mask
Q1, Q2 = [[1.0, 0.0], [0.5, 1.0], [1.0, 1.0]], [[0.0, 1.0], [1.0, 0.5], [0.5, 0.5]]
KEYS = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


def traps() -> Step:
    return Step(
        heading="Traps in code",
        text=(
            "These mistakes raise no error, and each has been seen in tutorials or libraries. Here they are sprung on "
            "purpose, beside the right way. nan is 'not a number': 0 nan is nan, so one of them spoils a row. The "
            f"rounding is of two outputs that differ by {CLOSE:g} of their size.",
            "Others need a real library. `enable_gqa` of torch's attention falls to the slow kernel when keys and "
            "values differ in width, as in V1, and on the CPU repeats keys and values in memory.",
            "Documents packed into one row must not see one another, with a cache neither: then a mask by document "
            "has to reach the cached keys too.",
            "Transformers' DiffLlama pairs head i with i + H, so that official weights need another order of rows. It "
            "refuses one or an odd number of key/value heads, keeps lambda in the parameters' dtype, has no weight in "
            "its norm, and makes two calls of attention a layer.",
        ),
        table=Table(
            (
                Column("trap"),
                Column("what is counted"),
                Column("done wrong", "measured", ".3g"),
                Column("done right", "measured", ".3g"),
            ),
            _rows(),
        ),
        shows="Round once, mask before each softmax, align to the lower right corner, leave out what is masked instead "
        "of weighing it with 0, and give a row that may see nothing the output 0.",
    )


def _rows() -> list[tuple[Cell, ...]]:
    each, once = rounding_errors()
    query, keys = [[1.0]], [[0.1], [0.2], [0.3], [0.4]]
    seen = [sum(weight > 0 for weight in attention_map(query, some)[0]) for some in (keys[:1], keys)]
    blind = sum(attention_map([[1.0], [1.0]], [[1.0]])[0])
    spoiled = product([[1.0, 0.0]], [[1.0], [math.nan]])[0][0]
    return [
        ("two outputs rounded to bfloat16, then subtracted", "relative error, %", 100 * each, 100 * once),
        ("causal mask aligned to the upper left", "keys of 4 that the last query sees", *seen),
        ("mask after the subtraction", "change of a row by a later key", *changes_by_a_later_key()),
        ("mask on the first map only", "weight on later keys", *weights_on_later_keys()),
        ("two masks of the lowest float, added", "row sum, all masked", sum(softmax([2 * LOWEST] * 4)), blind),
        ("one mask of the lowest float", "row sum, all masked", sum(softmax([LOWEST] * 4)), blind),
        ("a nan in a masked value, weighed with 0", "output", spoiled, product([[1.0]], [[1.0]])[0][0]),
    ]


def rounding_errors() -> tuple[float, float]:
    """Relative error of the difference of two near outputs: each rounded before it is taken, and rounded once after."""
    rng = random.Random(11)
    first = [rng.gauss(0, 1) for _ in range(CHANNELS)]
    second = [x + CLOSE * rng.gauss(0, 1) for x in first]
    exact = subtract([first], [second], [1.0])[0]
    each = subtract([list(map(bfloat16, first))], [list(map(bfloat16, second))], [1.0])[0]
    return _error(each, exact), _error(list(map(bfloat16, exact)), exact)


def _error(found: list[float], exact: list[float]) -> float:
    return rms(subtract([found], [exact], [1.0])[0]) / rms(exact)


def bfloat16(x: float) -> float:
    """The nearest number of bfloat16, a float32 whose last 16 bits are 0; of two as near the even one."""
    (bits,) = struct.unpack(">I", struct.pack(">f", x))
    kept = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    rounded: float = struct.unpack(">f", struct.pack(">I", kept))[0]
    return rounded


def changes_by_a_later_key() -> tuple[float, float]:
    """How much a row's weights on what it may see change with a key that it may not see: masked late, masked first."""
    later = [*KEYS[:2], [4.0, -4.0]]
    late, first = ([_signed(keys, causal)[1][:2] for keys in (KEYS, later)] for causal in (False, True))
    return _distance(*late), _distance(*first)


def weights_on_later_keys() -> tuple[float, float]:
    """What the first query gives to keys after it: with a mask on the first map alone, and on both."""
    maps = attention_map(Q1, KEYS), attention_map(Q2, KEYS, causal=False)
    one, both = subtract(*maps, [LAMBDA] * 3), _signed(KEYS, True)
    return sum(one[0][1:]), sum(both[0][1:])


def _signed(keys: Matrix, causal: bool) -> Matrix:
    return subtract(attention_map(Q1, keys, causal=causal), attention_map(Q2, keys, causal=causal), [LAMBDA] * 3)


def _distance(a: list[float], b: list[float]) -> float:
    return max(abs(x - y) for x, y in zip(a, b, strict=True))
