"""Random draws that all tasks share, whole batches at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["Seed", "distinct", "generator", "pick", "places"]

Seed = int | Sequence[int]
"""What `numpy.random.default_rng` takes: a number, or several such as a run's seed and the step."""


def generator(seed: Seed, *more: int) -> np.random.Generator:
    """Draws of a seed; with further numbers others, which have nothing to do with the first."""
    return np.random.default_rng([*np.atleast_1d(seed), *more])


def distinct(rng: np.random.Generator, rows: int, count: int, of: int) -> np.ndarray:
    """Int64 `[rows, count]`: in each row `count` different numbers below `of`, every order equally likely."""
    if not count:
        return np.empty((rows, 0), np.int64)
    draws = rng.random((rows, of))
    chosen = np.argpartition(draws, count - 1, axis=1)[:, :count]
    return pick(chosen, np.argsort(pick(draws, chosen), axis=1))


def pick(table: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`[rows, n]`: of each row of `table` `[rows, columns]` the columns `[rows, n]`."""
    return np.take_along_axis(table, columns, axis=1)


def places(rng: np.random.Generator, rows: int, count: int, length: int, depth: float | None) -> np.ndarray:
    """Int64 `[rows, count]`: different positions below `length`; the first of each row at `depth`, the others anywhere.

    Depth 0 is position 0, depth 1 is position length - 1; None places the first anywhere as well.
    """
    if depth is None:
        return distinct(rng, rows, count, length)
    first = round(depth * (length - 1))
    others = distinct(rng, rows, count - 1, length - 1)
    others += others >= first
    return np.concatenate([np.full((rows, 1), first), others], axis=1)
