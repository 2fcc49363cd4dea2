"""Differential attention from nothing: numbers in nested lists, and the standard library.

It is written to be read, and it shares no code with `diffattn.diff_attention`, so that each is a check of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

__all__ = [
    "Heads",
    "Matrix",
    "Vector",
    "attention_map",
    "diff_attention",
    "product",
    "softmax",
    "softmax_attention",
    "subtract",
]

Vector = list[float]
Matrix = list[Vector]  # rows, one a token
Heads = list[Matrix]  # [heads][tokens][width]


def softmax(scores: Vector) -> Vector:
    """Weights above 0 that sum to 1. Subtracting the largest score changes nothing, and keeps exp from overflowing."""
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def dot(a: Vector, b: Vector) -> float:
    return sum(map(mul, a, b))


def attention_map(queries: Matrix, keys: Matrix, *, causal: bool = True) -> Matrix:
    """One softmax map `[Tq][Tk]`: row i holds the weights that query i gives to the keys.

    With `causal`, query i of Tq sees the keys up to i + Tk - Tq, so that the last query sees every key; what a query
    may not see has the weight 0, and so has everything where it may see nothing.
    """
    rows, scale = [], len(queries[0]) ** -0.5
    for i, query in enumerate(queries):
        seen = max(0, i + 1 + len(keys) - len(queries)) if causal else len(keys)
        weights = softmax([scale * dot(query, key) for key in keys[:seen]]) if seen else []
        rows.append(weights + [0.0] * (len(keys) - seen))
    return rows


def subtract(first: Matrix, second: Matrix, lam: Sequence[float]) -> Matrix:
    """The signed map A1 - lam A2, with a lambda for each row."""
    rows = zip(first, second, lam, strict=True)
    return [[a - factor * b for a, b in zip(r, s, strict=True)] for r, s, factor in rows]


def product(weights: Matrix, values: Matrix) -> Matrix:
    """Each row of `weights` gives a weighted sum of the values: `[Tq][Tk]` times `[Tk][Dv]`."""
    channels = list(zip(*values, strict=True))
    return [[sum(map(mul, row, channel)) for channel in channels] for row in weights]


def softmax_attention(q: Heads, k: Heads, v: Heads, *, causal: bool = True) -> Heads:
    """Ordinary attention: q `[H][Tq][D]`, k `[Hkv][Tk][D]`, v `[Hkv][Tk][Dv]`; H / Hkv heads share a key and value."""
    group = len(q) // len(k)
    return [product(attention_map(q[h], k[h // group], causal=causal), v[h // group]) for h in range(len(q))]


def diff_attention(q1: Heads, q2: Heads, k: Heads, v: Heads, lam: float | Matrix, *, causal: bool = True) -> Heads:
    """(softmax(q1 k1^T / sqrt D) - lam softmax(q2 k2^T / sqrt D)) v, head by head.

    Args:
        q1: queries of the first map, `[H][Tq][D]`.
        q2: queries of the second map, `[Hn][Tq][D]`; Hn divides H, and each serves H / Hn heads.
        k: keys `[Hkv][Tk][D]` that both maps read (V2), or `[Hkv][Tk][2D]`, the first map's key and then the second's
            (V1); Hkv divides Hn.
        v: values `[Hkv][Tk][Dv]` of any width.
        lam: a number, or one for each head and query, `[H][Tq]`.
        causal: whether the last query stands at the last key and none sees a later key.

    Returns:
        `[H][Tq][Dv]`.
    """
    heads, width = len(q1), len(q1[0][0])
    out = []
    for h in range(heads):
        keys, values = k[h * len(k) // heads], v[h * len(v) // heads]
        first = attention_map(q1[h], [key[:width] for key in keys], causal=causal)
        second = attention_map(q2[h * len(q2) // heads], [key[-width:] for key in keys], causal=causal)
        factors = lam[h] if isinstance(lam, list) else [lam] * len(first)
        out.append(product(subtract(first, second, factors), values))
    return out
