"""Gated attention: the control for DIFF V2, whose argument about the context's size it shares."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from diffattn.nn.softmax import SoftmaxAttention

__all__ = ["GatedAttention"]


class GatedAttention(SoftmaxAttention):
    """Ordinary attention whose heads' outputs are multiplied by `sigmoid(x Wg)`, channel by channel.

    `gate_proj` is as large as `q_proj`, so the layer has V2's parameters but for V2's small `lambda_proj` (Qiu et al.,
    Gated Attention for Large Language Models, arXiv:2505.06708, the variant after the product with V).

    Arguments as in `AttentionLayer`.
    """

    def __init__(self, hidden_size: int, num_heads: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(hidden_size, num_heads, *args, **kwargs)
        weight = self.q_proj.weight
        bias = self.q_proj.bias is not None
        width = self.num_heads * self.value_dim
        self.gate_proj = nn.Linear(hidden_size, width, bias=bias, device=weight.device, dtype=weight.dtype)

    def extra(self, hidden: Tensor) -> Tensor:
        """The gate `[B, T, H, D]`."""
        return torch.sigmoid(self.gate_proj(hidden)).unflatten(-1, (self.num_heads, self.value_dim))

    def output(self, context: Tensor, extra: Any = None) -> Tensor:
        return super().output(context * extra, extra)
