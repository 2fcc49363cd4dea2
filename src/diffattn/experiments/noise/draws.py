"""Drawn scores, and the maps that the project's own operator makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from diffattn.experiments.noise.estimate import Array
from diffattn.ops.api import diff_attention_weights
from diffattn.ops.types import DiffWeights
from diffattn.planning.noise_model import NoiseModel

__all__ = ["Cell", "Maps", "attend", "keys_of", "measure", "standard_scores", "subtracted", "sums_of"]

#: From keys `[draws, 1, keys, 2]` to one or more signed maps `[draws, keys]`, the match at position 0.
Maps = Callable[[Tensor], Iterator[Tensor]]
#: A setting, and the maps wanted of it.
Cell = tuple[NoiseModel, Maps]

#: Scores of one map held at a time; small, since a processor's cache is faster than its memory.
_HELD = 2**16


def standard_scores(length: int, draws: int, seed: int) -> Iterator[Tensor]:
    """Standard normal scores of the `length - 1` keys that are not the match, a few draws at a time.

    Every setting of one length and seed sees the same draws, however they are split: differences between settings are
    then not blurred by chance.

    Yields:
        `[some draws, 2, length - 1]` in float64, two independent maps.
    """
    generator = np.random.default_rng([seed, length])
    chunk = max(1, _HELD // length)
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        yield torch.from_numpy(np.stack([generator.standard_normal((2, length - 1)) for _ in range(size)]))


def keys_of(model: NoiseModel, standard: Tensor) -> Tensor:
    """Keys `[draws, 1, length, 2]` of width 1 a map, the match at position 0, for queries of 1: keys are scores."""
    draws, _, others = standard.shape
    rho = model.correlation
    keys = standard.new_empty(draws, 1, others + 1, 2)
    keys[:, 0, 0, 0], keys[:, 0, 0, 1] = model.margin, model.second_margin
    torch.mul(standard[:, 0], model.strength, out=keys[:, 0, 1:, 0])
    mixed = rho * standard[:, 0] + math.sqrt(1 - rho * rho) * standard[:, 1]
    torch.mul(mixed, model.s2, out=keys[:, 0, 1:, 1])
    return keys


def attend(keys: Tensor, lam: float = 0.0, *, factor: float = 1.0, mask: Tensor | None = None) -> DiffWeights:
    """The operator's maps of one query that sees all of `keys` `[draws, 1, keys, 2]`, scores times `factor`.

    `mask`: `[draws, keys]`, True may be seen.
    """
    one = keys.new_ones(()).expand(len(keys), 1, 1, 1)
    return diff_attention_weights(one, one, keys, lam, causal=False, scale=factor, mask=mask)


def subtracted(lambdas: Sequence[float]) -> Maps:
    """From keys to the signed map for each of `lambdas`, the two softmax maps being made once for all of them."""

    def maps(keys: Tensor) -> Iterator[Tensor]:
        made = attend(keys)
        for lam in lambdas:
            yield (made.signal - lam * made.noise if lam else made.signal)[:, 0, 0]

    return maps


def sums_of(weights: Tensor) -> Tensor:
    """What a draw is kept as, from its weights `[draws, keys]` with the match first: `[draws, 4]`.

    The match's weight; of all other positions the sum of absolute weights, the sum, and the sum of squares.
    """
    match, others = weights[:, 0], weights[:, 1:]
    return torch.stack([match, others.abs().sum(-1), others.sum(-1), others.square().sum(-1)], dim=-1)


def measure(
    cells: Sequence[Cell], draws: int, seed: int, advance: Callable[[float], object] = float
) -> list[list[Array]]:
    """The sums of every draw, `[draws, 4]` in NumPy, for each cell and each of its maps.

    Args:
        cells: settings of one length with the maps wanted of each; all see the same draws.
        draws: how many, 1 or more.
        seed: of the draws.
        advance: is told how many keys were attended to, for a progress bar.
    """
    length = cells[0][0].length
    assert all(model.length == length for model, _ in cells)
    found: list[list[list[Tensor]]] = [[] for _ in cells]
    for standard in standard_scores(length, draws, seed):
        for kept, (model, maps) in zip(found, cells, strict=True):
            kept.append([sums_of(weights) for weights in maps(keys_of(model, standard))])
            advance(len(standard) * length)
    return [[torch.cat(parts).numpy() for parts in zip(*kept, strict=True)] for kept in found]
