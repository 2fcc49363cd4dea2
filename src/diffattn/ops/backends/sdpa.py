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
    return fused_cost(x.sight, x.k.device, x.dropout_p)


def forward(x: DiffInputs) -> Tensor:
    signal, noise = fused_attention(_queries(x), x.k, x.v, x.sight, x.scale, x.dropout_p)
    repeat = signal.shape[2] // noise.shape[2]
    signal, noise = signal.unflatten(2, (-1, repeat)), noise.unsqueeze(3)
    lam = x.lam
    if lam.ndim == 4:
        heads = (1, 1, 1) if lam.shape[1] == 1 else (x.kv_heads, -1, repeat)
        lam = lam.unflatten(1, heads)
    out = torch.addcmul(signal.to(lam.dtype), lam, noise.to(lam.dtype), value=-1)
    return out.to(x.q1.dtype).flatten(1, 3)


def _queries(x: DiffInputs) -> tuple[Tensor, Tensor]:
    q1, q2 = x.q1, x.q2
    mask_by_head = x.sight.mask is not None and x.sight.mask.shape[1] > 1
    if x.noise_heads < x.heads and (mask_by_head or x.dropout_p):
        q2 = q2.repeat_interleave(x.heads // x.noise_heads, dim=1)  # each output head has a noise map of its own
    if x.separate_keys:
        q1, q2 = F.pad(q1, (0, x.map_dim)), F.pad(q2, (x.map_dim, 0))
    return q1, q2
