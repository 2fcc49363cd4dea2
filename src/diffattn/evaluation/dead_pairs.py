"""Heads whose second map does nothing of its own: it repeats the first, or lambda is next to nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from diffattn.evaluation._setting import mode, require_positive, token_batches
from diffattn.evaluation.interventions import differential_layers
from diffattn.evaluation.recorded_scores import recording
from diffattn.models.attention import DiffTransformerAttention

__all__ = ["DeadPairsConfig", "DeadPairsResult", "PairResult", "map_correlation", "measure"]

_FEWEST_KEYS = 3  # through two points every line fits


@dataclass(frozen=True, kw_only=True)
class DeadPairsConfig:
    """What counts as dead.

    Attributes:
        correlation: a pair whose maps are correlated above it repeats itself.
        lam: a pair whose mean |lambda| is below it subtracts nothing.
        queries: rows of the maps looked at in each sequence, evenly spaced, the last one included.
        batch_size: sequences at once; the result does not depend on it.
    """

    correlation: float = 0.99
    lam: float = 0.05
    queries: int = 8
    batch_size: int = 4

    def __post_init__(self) -> None:
        require_positive(self, "queries", "batch_size")
        if not -1 <= self.correlation <= 1:
            raise ValueError(f"DeadPairsConfig: correlation must be from -1 to 1, not {self.correlation}")
        if not self.lam >= 0:
            raise ValueError(f"DeadPairsConfig: lam must be 0 or more, not {self.lam}")


@dataclass(frozen=True, kw_only=True)
class PairResult:
    """One head: mean over rows of Pearson's correlation of both maps' weights, and mean |lambda| over all tokens.

    A large weight that both maps give to one key, as to the first token, makes for most of the correlation: a pair
    above the limit may still differ in the small weights that are left when the maps are subtracted. None for what is
    not finite.
    """

    layer: int
    head: int
    correlation: float | None
    lam: float | None


@dataclass(frozen=True, kw_only=True)
class DeadPairsResult:
    """What was measured.

    Attributes:
        config: the limits.
        pairs: all heads, in the order of layers.
        correlated: (layer, head) of those whose maps are correlated above the limit.
        silent: of those whose lambda is below the limit.
        dead: of those that are either.
        diverged: a number of the model was not finite; the lists are then empty.
    """

    config: DeadPairsConfig
    pairs: tuple[PairResult, ...]
    correlated: tuple[tuple[int, int], ...]
    silent: tuple[tuple[int, int], ...]
    dead: tuple[tuple[int, int], ...]
    diverged: bool

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them, and the length of each list."""
        counts = {f"{name}_count": len(getattr(self, name)) for name in ("pairs", "correlated", "silent", "dead")}
        return {**asdict(self), **counts}


def measure(model: PreTrainedModel, data: np.ndarray, config: DeadPairsConfig) -> DeadPairsResult:
    """Compare the two maps of every differential head on sequences of tokens, int64 `[N, T]`.

    Only the rows looked at are made. The model's mode is put back afterwards.

    Raises:
        UserError: the model has no differential attention, or the sequences are longer than its context.
        ValueError: sequences too short for that many rows, each of which sees three keys or more.
    """
    differential_layers(model)
    batches = token_batches(model, data, config.batch_size)
    columns: dict[int, list[tuple[Tensor, Tensor]]] = defaultdict(list)

    def receive(layer: nn.Module, scores: Tensor) -> None:
        if isinstance(layer, DiffTransformerAttention) and layer.recorded_lambda is not None:
            lam = layer.recorded_lambda.double().abs()
            lam = lam.mean(-1) if lam.ndim == 3 else lam
            found = map_correlation(scores[:, 0::2], scores[:, 1::2]).mean(-1)
            columns[layer.layer_idx].append((found.cpu(), lam.expand(found.shape).cpu()))

    positions = torch.from_numpy(_positions(data.shape[1], config.queries))
    with torch.inference_mode(), mode(model, training=False):
        for ids in batches:
            with recording(model, receive, positions.expand(len(ids), -1)):
                model.base_model(input_ids=ids, use_cache=False)
    return _result(columns, config)


def map_correlation(first: Tensor, second: Tensor) -> Tensor:
    """Pearson's correlation of two maps over the keys that a query sees, float64 `[...]`.

    Args:
        first, second: scores `[..., T]`, -inf for the same unseen keys.

    Returns:
        1 where both maps are flat, and so the same; 0 where one is.
    """
    seen = first != -torch.inf
    count = seen.sum(-1).double()
    one, two = (_centred(scores, seen, count) for scores in (first, second))
    squares = one.square().sum(-1), two.square().sum(-1)
    # Rounding alone leaves a flat map a spread of some 1e-16 of its weights, 1 / count.
    flat = [square * count < 1e-24 for square in squares]
    correlation = (one * two).sum(-1) / (squares[0] * squares[1]).sqrt()
    return torch.where(flat[0] | flat[1], (flat[0] & flat[1]).double(), correlation.clamp(-1, 1))


def _centred(scores: Tensor, seen: Tensor, count: Tensor) -> Tensor:
    return torch.where(seen, scores.double().softmax(-1) - 1 / count[..., None], 0.0)


def _positions(length: int, queries: int) -> np.ndarray:
    """Of the rows, rising, int64 `[queries]`."""
    positions = (np.arange(1, queries + 1) * length) // queries - 1
    if positions[0] < _FEWEST_KEYS - 1:
        most = length // _FEWEST_KEYS
        raise ValueError(f"queries: expected at most {most} for sequences of {length} tokens, got {queries}")
    return positions


def _result(columns: dict[int, list[tuple[Tensor, Tensor]]], config: DeadPairsConfig) -> DeadPairsResult:
    pairs, correlated, silent, diverged = [], set(), set(), False
    for layer, batches in sorted(columns.items()):
        correlations, lambdas = (torch.cat(part).mean(0).tolist() for part in zip(*batches, strict=True))
        for head, (correlation, lam) in enumerate(zip(correlations, lambdas, strict=True)):
            pairs.append(PairResult(layer=layer, head=head, correlation=_finite(correlation), lam=_finite(lam)))
            diverged |= not (math.isfinite(correlation) and math.isfinite(lam))
            correlated |= {(layer, head)} if correlation > config.correlation else set()
            silent |= {(layer, head)} if lam < config.lam else set()
    lists = [() if diverged else tuple(sorted(found)) for found in (correlated, silent, correlated | silent)]
    return DeadPairsResult(
        config=config, pairs=tuple(pairs), correlated=lists[0], silent=lists[1], dead=lists[2], diverged=diverged
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
