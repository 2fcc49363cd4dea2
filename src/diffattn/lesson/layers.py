"""The layers of DIFF V1 and V2 on plain lists: hidden states in, hidden states out. No positions, no biases.

A weight is a matrix `[out][in]`, as torch's `nn.Linear` keeps it. Pairs are adjacent: of the query maps, 2i and 2i + 1
belong to output head i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from diffattn.lesson.attention import Heads, Matrix, Vector, diff_attention, dot, softmax_attention

__all__ = [
    "EPSILON",
    "V1",
    "V2",
    "heads_of",
    "join",
    "lambda_init",
    "lambda_v1",
    "linear",
    "ordinary_layer",
    "rms",
    "rms_norm",
    "sigmoid",
]

EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True)
class V1:
    """DIFF V1 (Ye et al., arXiv:2410.05258) with H output heads, each with two maps of width D and values of 2D.

    Attributes:
        q: `[2 H D][C]`, for each head its first map and then its second.
        k: `[2 Hkv D][C]`, for each key/value head the first map's key and then the second's.
        v: `[2 Hkv D][C]`.
        o: `[C][2 H D]`.
        vectors: lq1, lk1, lq2, lk2, of width D each: one set for the whole layer.
        norm: the head norm's weight, of width 2D; None leaves out the norm and the factor (1 - lambda_init).
        width: D.
        layer: its index from 0, for lambda_init.
    """

    q: Matrix
    k: Matrix
    v: Matrix
    o: Matrix
    vectors: Sequence[Vector]
    norm: Vector | None
    width: int
    layer: int = 0

    @property
    def lam(self) -> float:
        return lambda_v1(self.vectors, self.layer)

    def context(self, x: Matrix) -> Heads:
        """What the two maps give, before the norm: `[H][T][2D]`."""
        maps = heads_of(linear(x, self.q), self.width)
        keys, values = (heads_of(linear(x, weight), 2 * self.width) for weight in (self.k, self.v))
        return diff_attention(maps[0::2], maps[1::2], keys, values, self.lam)

    def __call__(self, x: Matrix) -> Matrix:
        """Hidden states `[T][C]` to hidden states `[T][C]`, causal."""
        heads = self.context(x)
        if self.norm is not None:
            factor = 1 - lambda_init(self.layer)
            heads = [[[factor * value for value in rms_norm(row, self.norm)] for row in head] for head in heads]
        return linear(join(heads), self.o)


@dataclass(frozen=True, kw_only=True)
class V2:
    """DIFF V2 (Microsoft, January 2026) with H output heads of width D, each with two maps on one key and value.

    Attributes:
        q: `[2 H D][C]`, for each head its first map and then its second.
        k, v: `[Hkv D][C]`, the baseline's own.
        o: `[C][H D]`, the baseline's own.
        lam: `[H][C]`; its product with a token's hidden state goes through a sigmoid.
        width: D.
    """

    q: Matrix
    k: Matrix
    v: Matrix
    o: Matrix
    lam: Matrix
    width: int

    def lambdas(self, x: Matrix) -> Matrix:
        """lambda for each head and token, `[H][T]`, between 0 and 1."""
        return [[sigmoid(dot(weight, token)) for token in x] for weight in self.lam]

    def __call__(self, x: Matrix) -> Matrix:
        """Hidden states `[T][C]` to hidden states `[T][C]`, causal."""
        maps, keys, values = (heads_of(linear(x, weight), self.width) for weight in (self.q, self.k, self.v))
        return linear(join(diff_attention(maps[0::2], maps[1::2], keys, values, self.lambdas(x))), self.o)


def ordinary_layer(x: Matrix, q: Matrix, k: Matrix, v: Matrix, width: int) -> Matrix:
    """Ordinary attention up to its joined heads, `[T][heads * width]`: a layer without the output weight."""
    maps, keys, values = (heads_of(linear(x, weight), width) for weight in (q, k, v))
    return join(softmax_attention(maps, keys, values))


def lambda_v1(vectors: Sequence[Vector], layer: int) -> float:
    """exp(lq1.lk1) - exp(lq2.lk2) + lambda_init, from the vectors lq1, lk1, lq2, lk2."""
    q1, k1, q2, k2 = vectors
    return math.exp(dot(q1, k1)) - math.exp(dot(q2, k2)) + lambda_init(layer)


def lambda_init(layer: int) -> float:
    """0.8 - 0.6 exp(-0.3 l), with layers counted from 0."""
    return 0.8 - 0.6 * math.exp(-0.3 * layer)


def linear(x: Matrix, weight: Matrix) -> Matrix:
    """Each row of x through a weight `[out][in]`."""
    return [[dot(row, token) for row in weight] for token in x]


def heads_of(rows: Matrix, width: int) -> Heads:
    """Cut `[T][n * width]` into heads `[n][T][width]`."""
    return [[row[start : start + width] for row in rows] for start in range(0, len(rows[0]), width)]


def join(heads: Heads) -> Matrix:
    """The opposite of `heads_of`."""
    return [[value for row in rows for value in row] for rows in zip(*heads, strict=True)]


def rms(row: Vector) -> float:
    """Root of the mean square."""
    return math.sqrt(dot(row, row) / len(row))


def rms_norm(row: Vector, weight: Vector) -> Vector:
    """The row at a root mean square of 1, times the weight."""
    size = math.sqrt(dot(row, row) / len(row) + EPSILON)
    return [w * value / size for w, value in zip(weight, row, strict=True)]


def sigmoid(x: float) -> float:
    """1 / (1 + e^-x), for any x: neither side can overflow."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
