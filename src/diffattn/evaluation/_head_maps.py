"""The maps of each head out of a layer's recorded scores: one, or two and the lambda of their subtraction."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from diffattn.evaluation.recorded_scores import learned_sinks
from diffattn.models.attention import DiffTransformerAttention

__all__ = ["HeadMaps", "head_maps"]


class HeadMaps(NamedTuple):
    """Of H output heads, on the CPU.

    Attributes:
        first: scores `[B, H, ..., T]`, of the only map or of the signal map.
        second: scores of the noise map, and lam `[B, H, ...]`; None where a head has one map.
        sinks: learned logits `[H]` of the first map; None for none.
    """

    first: Tensor
    second: Tensor | None
    lam: Tensor | None
    sinks: Tensor | None


def head_maps(layer: nn.Module, scores: Tensor, queries: Tensor | None = None) -> HeadMaps:
    """From what `recording` gave: scores `[B, heads, Q, T]` of queries `[B, Q]`, or `[B, heads, T]` of the last one."""
    scores, sinks = scores.cpu(), learned_sinks(layer)
    if not isinstance(layer, DiffTransformerAttention) or layer.MAPS == 1:
        return HeadMaps(scores, None, None, None if sinks is None else sinks.detach().cpu())
    assert layer.recorded_lambda is not None
    assert sinks is None
    first, second = scores[:, 0::2], scores[:, 1::2]
    lam = layer.recorded_lambda.cpu().expand(*first.shape[:2], first.shape[-1])
    return HeadMaps(first, second, _lambda_at(lam, queries), None)


def _lambda_at(lam: Tensor, queries: Tensor | None) -> Tensor:
    """Of `[B, H, T]` what belongs to the queries, `[B, H, Q]`, or to the last one, `[B, H]`."""
    if queries is None:
        return lam[..., -1]
    return lam.gather(2, queries.cpu()[:, None].expand(-1, lam.shape[1], -1))
