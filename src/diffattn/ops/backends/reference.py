"""The definition: explicit maps, combined before they multiply V. Every other backend is tested against it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from diffattn.ops.masks import visible, zero_unseen
from diffattn.ops.types import DiffInputs, DiffWeights, compute_dtype

__all__ = ["cost", "forward", "weights", "why_not"]


def why_not(x: DiffInputs) -> list[str]:
    return []


def cost(x: DiffInputs) -> str | None:
    return "builds both maps, B x H x Tq x Tk each"


def forward(x: DiffInputs) -> Tensor:
    """`(A1 - lam A2) V` in the compute dtype, rounded once at the end."""
    seen = visible(x.sight, x.k.device)
    signed, signal, noise = weights(x, seen)
    if x.dropout_p:
        signed = F.dropout(signal, x.dropout_p) - x.lam * F.dropout(noise, x.dropout_p)
    v = x.v if seen is None else zero_unseen(x.v, seen)
    v = v.to(signed.dtype).repeat_interleave(x.heads // x.kv_heads, dim=1)
    with _no_autocast(v.device):
        out = (signed @ v).to(x.q1.dtype)
    if seen is None:
        return out
    # Its weights are 0 anyway; now a NaN in its output's gradient stops here too.
    return out.masked_fill(~seen.any(dim=-1, keepdim=True), 0.0)


def weights(x: DiffInputs, seen: Tensor | None) -> DiffWeights:
    """Both softmax maps and their difference, `[B, H, Tq, Tk]` in the compute dtype."""
    k = x.k if seen is None else zero_unseen(x.k, seen)
    k1, k2 = (k[..., : x.map_dim], k[..., x.map_dim :]) if x.separate_keys else (k, k)
    q2 = x.q2.repeat_interleave(x.heads // x.noise_heads, dim=1)
    signal, noise = (softmax_map(q, key, seen, x.scale) for q, key in ((x.q1, k1), (q2, k2)))
    return DiffWeights(signal - x.lam * noise, signal, noise)


def softmax_map(q: Tensor, k: Tensor, seen: Tensor | None, scale: float) -> Tensor:
    """`softmax(q k^T scale)` over the keys seen, `[B, H, Tq, Tk]`; a row that sees nothing is 0, as is its gradient."""
    dtype = compute_dtype(q.dtype)
    k = k.to(dtype).repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    if seen is not None:
        q = q.masked_fill(~seen.any(dim=-1, keepdim=True), 0.0)
    with _no_autocast(q.device):
        scores = q.to(dtype) @ k.transpose(-1, -2) * scale
    if seen is None:
        return torch.softmax(scores, dim=-1)
    # A row that sees nothing keeps finite scores: -inf everywhere would make its softmax and gradient NaN.
    hidden = ~seen & seen.any(dim=-1, keepdim=True)
    return torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1).masked_fill(~seen, 0.0)


def _no_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Autocast would take the products in its own dtype, and the maps with them."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)
