"""DIFF V2."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from diffattn.nn.differential import DifferentialLayer

__all__ = ["DiffAttentionV2"]


class DiffAttentionV2(DifferentialLayer):
    """Differential attention as in Microsoft's Differential Transformer V2 (January 2026).

    Twice the query heads on the baseline's keys and values, one ordinary attention call, no norm:

        head = softmax(q1 k^T / sqrt D) v - sigmoid(x w) softmax(q2 k^T / sqrt D) v

    lambda is a number a token and head. Against a baseline with the same `num_heads`, key/value heads and width, the
    cache is the same; `q_proj` doubles and `lambda_proj` is new.

    Args:
        num_heads: output heads H, the baseline's own; `map_dim` defaults to `hidden_size / H`.
        lambda_bias: whether `lambda_proj` has a bias (the authors' has none).

    The other arguments as in `AttentionLayer`.
    """

    def __init__(self, hidden_size: int, num_heads: int, *args: Any, lambda_bias: bool = False, **kwargs: Any) -> None:
        super().__init__(hidden_size, num_heads, *args, **kwargs)
        weight = self.q_proj.weight
        self.lambda_proj = nn.Linear(hidden_size, num_heads, bias=lambda_bias, device=weight.device, dtype=weight.dtype)

    def extra(self, hidden: Tensor) -> Tensor:
        """lambda `[B, H, T]`, in float32 or wider."""
        logits = self.lambda_proj(hidden)
        wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
        return torch.sigmoid(logits.to(wide)).transpose(1, 2)
