"""Ordinary attention: the baseline."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from diffattn.nn.layer import AttentionLayer, Projected
from diffattn.ops import softmax_attention

__all__ = ["SoftmaxAttention"]


class SoftmaxAttention(AttentionLayer):
    """Multi-head attention with grouped keys and values (Vaswani et al., 2017; Ainslie et al., arXiv:2305.13245).

    Arguments as in `AttentionLayer`; `map_dim` defaults to `hidden_size / num_heads`.
    """

    def attend(self, projected: Projected, **sight: Any) -> Tensor:
        return softmax_attention(projected.q, projected.k, projected.v, **sight)

    def combine(self, maps: Tensor, extra: Any) -> Tensor:
        return maps.squeeze(-2)
