"""Small layers and random numbers that several parts run."""

from __future__ import annotations

import random

from diffattn.lesson.attention import Heads, Matrix
from diffattn.lesson.layers import V1, V2

__all__ = ["example_v1", "example_v2", "matrix", "random_heads"]


def matrix(rng: random.Random, rows: int, columns: int, size: float = 1.0) -> Matrix:
    """Normal numbers with standard deviation `size`."""
    return [[rng.gauss(0, size) for _ in range(columns)] for _ in range(rows)]


def random_heads(rng: random.Random, heads: int, tokens: int, width: int) -> Heads:
    return [matrix(rng, tokens, width) for _ in range(heads)]


def example_v1() -> tuple[V1, Matrix]:
    """A V1 layer with 2 heads of width 4 on a stream of 16, third of its model, and six tokens."""
    rng = random.Random(4)
    shapes = {"q": (16, 16), "k": (16, 16), "v": (16, 16), "o": (16, 16)}
    weights = {name: matrix(rng, *shape, 0.25) for name, shape in shapes.items()}
    return V1(**weights, vectors=matrix(rng, 4, 4, 0.1), norm=[1.0] * 8, width=4, layer=2), matrix(rng, 6, 16)


def example_v2() -> tuple[V2, Matrix]:
    """A V2 layer with 4 heads of width 4 on 2 key/value heads and a stream of 16, and eight tokens."""
    rng = random.Random(5)
    shapes = {"q": (32, 16), "k": (8, 16), "v": (8, 16), "o": (16, 16), "lam": (4, 16)}
    weights = {name: matrix(rng, *shape, 0.5) for name, shape in shapes.items()}
    return V2(**weights, width=4), matrix(rng, 8, 16)
