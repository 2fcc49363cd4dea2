"""The norm of DIFF V1: each head's output on its own, before the heads are joined."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["HeadNorm"]


class HeadNorm(nn.Module):
    """RMSNorm over the last dimension, in float32 whatever the input's dtype or autocast, then a learned weight.

    One weight serves all heads of a layer, as in the official code (older copies of it had none).

    Args:
        dim: channels of one head, 2D in V1.
        eps: added to the mean square.
    """

    def __init__(
        self, dim: int, eps: float = 1e-5, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.double() if x.dtype == torch.float64 else x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return wide.to(x.dtype) * self.weight.to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"
