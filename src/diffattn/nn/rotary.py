"""Rotary position embedding in Llama's layout: the first half of a vector is rotated against the second.

The official Differential Transformer code rotates even against odd channels; the two layouts differ by a permutation
of the rows of `q_proj` and `k_proj`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["RotaryEmbedding", "apply_rotary"]


class RotaryEmbedding(nn.Module):
    """Cosines and sines for `apply_rotary` (Su et al., RoFormer, arXiv:2104.09864).

    It holds no state, so that a module built on the meta device needs nothing but its parameters.

    Args:
        dim: width of the vectors to rotate, even.
        base: of the geometric series of wavelengths.
    """

    def __init__(self, dim: int, base: float = 10000.0) -> None:
        super().__init__()
        if dim % 2:
            raise ValueError(f"dim: rotary embedding expects an even width, got {dim}")
        self.dim = dim
        self.base = base

    def forward(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Cosine and sine, each `[*positions.shape, dim]`, computed in `dtype`."""
        exponent = torch.arange(0, self.dim, 2, device=positions.device, dtype=dtype) / self.dim
        angles = positions[..., None].to(dtype) * self.base**-exponent
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    def extra_repr(self) -> str:
        return f"dim={self.dim}, base={self.base}"


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates `x` `[B, T, heads, D]` by `cos`, `sin` `[B or 1, T, D]`; the result has x's dtype."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (x * cos.unsqueeze(2) + turned * sin.unsqueeze(2)).to(x.dtype)
