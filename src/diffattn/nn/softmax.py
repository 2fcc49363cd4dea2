"""Ordinary attention: the baseline."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from diffattn.nn.layer import AttentionLayer, Projected
from diffattn.ops import softmax_attention

__all__ = ["SoftmaxAttention"]


class SoftmaxAttention(AttentionLayer):
    """Multi-head attention with grouped keys and values (Vaswani et al., 2017; Ainslie et al., arXiv:2305.13245).

    Args:
        attention_sink: a learned logit a head, `sinks` `[H]`, in the softmax's denominator, so that a head may attend
            to nothing (gpt-oss, arXiv:2508.10925).

    The other arguments as in `AttentionLayer`; `map_dim` defaults to `hidden_size / num_heads`.
    """

    def __init__(
        self, hidden_size: int, num_heads: int, *args: Any, attention_sink: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(hidden_size, num_heads, *args, **kwargs)
        weight = self.q_proj.weight
        if attention_sink:  # without sinks no attribute: engines ask whether there is one
            self.sinks = nn.Parameter(torch.empty(num_heads, device=weight.device, dtype=weight.dtype))
        self.reset_own()

    def reset_own(self, init: Any = nn.init) -> None:
        """Sinks of 0: as one more key of score 0, among the keys' scores near 0 of a new layer, they change little."""
        if hasattr(self, "sinks"):
            init.zeros_(self.sinks)

    def attend(self, projected: Projected, **sight: Any) -> Tensor:
        return softmax_attention(projected.q, projected.k, projected.v, sinks=getattr(self, "sinks", None), **sight)

    def combine(self, maps: Tensor, extra: Any) -> Tensor:
        return maps.squeeze(-2)
