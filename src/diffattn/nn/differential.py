"""What DIFF V1 and V2 share: two query maps a head, adjacent, and their subtraction."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from diffattn.nn.layer import AttentionLayer, Projected
from diffattn.ops import diff_attention

__all__ = ["DifferentialLayer"]


class DifferentialLayer(AttentionLayer):
    """Base of the differential layers; `extra` is lambda, a number, 0-d, or `[B, H, T]` in float32 or wider."""

    MAPS = 2

    def attend(self, projected: Projected, **sight: Any) -> Tensor:
        q1, q2 = projected.q[:, 0::2], projected.q[:, 1::2]
        return diff_attention(q1, q2, projected.k, projected.v, projected.extra, **sight)

    def combine(self, maps: Tensor, extra: Any) -> Tensor:
        """`[B, T, H, Dv]` from `[B, T, H, 2, Dv]`; the subtraction is in lambda's dtype, rounded once."""
        lam = extra
        if isinstance(lam, Tensor) and lam.ndim == 3:
            lam = lam.transpose(1, 2).unsqueeze(-1)
        wide = torch.float64 if maps.dtype == torch.float64 else torch.float32
        signal, noise = maps.to(wide).unbind(-2)
        return (signal - lam * noise).to(maps.dtype)
