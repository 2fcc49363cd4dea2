"""Torch's own fused attention: the two maps are two groups of query heads on the same keys and values.

- One key for both maps (V2): the queries as they are.
- A key for each map (V1): queries `[q1, 0]` and `[0, q2]`, as wide as the pair of keys; the zeros select the half.

Each map's product with V comes already rounded from the kernel; the subtraction is in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from diffattn.ops.fused import fused_attention, fused_cost
from diffattn.ops.types import DiffInputs

__all__ = ["cost", "forward", "why_not"]


def why_not(x: DiffInputs) -> list[str]:
    return []


def cost(x: DiffInputs) -> str | None:
    return fused_cost(x.sight, x.dropout_p)


def forward(x: DiffInputs) -> Tensor:
    signal, noise = fused_attention(_queries(x), x.k, x.v, x.sight, x.scale, x.dropout_p)
    if x.heads != noise.shape[1]:
        noise = noise[:, :, None].expand(-1, -1, x.heads // noise.shape[1], -1, -1).flatten(1, 2)
    return torch.addcmul(signal.to(x.lam.dtype), x.lam, noise.to(x.lam.dtype), value=-1).to(x.q1.dtype)


def _queries(x: DiffInputs) -> tuple[Tensor, Tensor]:
    q1, q2 = x.q1, x.q2
    mask_by_head = x.sight.mask is not None and x.sight.mask.shape[1] > 1
    if x.noise_heads < x.heads and (mask_by_head or x.dropout_p):
        q2 = q2.repeat_interleave(x.heads // x.noise_heads, dim=1)  # each output head has a noise map of its own
    if x.separate_keys:
        q1, q2 = F.pad(q1, (0, x.map_dim)), F.pad(q2, (x.map_dim, 0))
    return q1, q2
