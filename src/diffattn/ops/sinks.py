"""Attention with a learned sink: one logit a head in the softmax's denominator, whose weight goes to no value.

On the CPU each block's output is joined with the sink by its log-sum-exp. The kernels of other devices, and dropout, do
not give it away: there the sink is one more key in front of the others, with a value of 0.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from diffattn.ops.blockwise import blockwise_attention
from diffattn.ops.fused import fused_attention, in_blocks, unit_stride
from diffattn.ops.masks import visible
from diffattn.ops.types import Sight, compute_dtype
from diffattn.ops.validation import wrong

__all__ = ["attention_with_sinks", "check_sinks", "sink_as_a_key"]


def check_sinks(sinks: Tensor, q: Tensor) -> None:
    """Refuses what is not one floating-point number a query head, on the queries' device.

    Raises:
        ValueError: it is not.
    """
    fits = isinstance(sinks, Tensor) and sinks.is_floating_point() and list(sinks.shape) == [q.shape[1]]
    if not fits or sinks.device != q.device:
        raise wrong("sinks", f"a floating-point tensor of shape [H] = [{q.shape[1]}] on {q.device}", sinks)


def attention_with_sinks(
    q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, sight: Sight, scale: float, dropout_p: float = 0.0
) -> Tensor:
    """`softmax([sinks, q k^T scale]) [0, v]`, `[B, H, Tq, Dv]`; arguments as in `diffattn.softmax_attention`.

    A row that sees nothing gives 0, with zero gradient, also of its sink.
    """
    if 0 in (sight.q_length, sight.k_length, k.shape[0]):
        return fused_attention([q], k, v, sight, scale)[0].flatten(1, 2) + sinks[:0].sum().to(q.dtype)
    if in_blocks(k.device, dropout_p):
        return _in_blocks(q, k, v, sinks, sight, scale)
    return sink_as_a_key(q, k, v, sinks, sight, scale, dropout_p)


def _in_blocks(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, sight: Sight, scale: float) -> Tensor:
    batch, kv_heads, value_width = k.shape[0], k.shape[1], v.shape[3]
    width = max(q.shape[3], value_width)
    q, k, v = (unit_stride(x if x.shape[3] == width else F.pad(x, (0, width - x.shape[3]))) for x in (q, k, v))
    by_head = sinks.to(compute_dtype(q.dtype)).view(1, kv_heads, -1).expand(batch, -1, -1)
    out = blockwise_attention(q.unflatten(1, (kv_heads, -1)), k, v, sight, scale, by_head)
    return out[..., :value_width].flatten(1, 2)


def sink_as_a_key(
    q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, sight: Sight, scale: float, dropout_p: float = 0.0
) -> Tensor:
    """As `attention_with_sinks`, by any kernel: the sink is a key that channels of their own give its score.

    Causal still ends at the lower right corner; any other restriction becomes a boolean mask.
    """
    seen = visible(sight, k.device) if sight.needs_mask or sight.q_length > sight.k_length else None
    longer, blind = replace(sight, k_length=sight.k_length + 1), None
    if seen is not None:
        seen = seen.expand(*seen.shape[:3], sight.k_length)
        blind = ~seen.any(dim=-1, keepdim=True)
        q = q.masked_fill(blind, 0.0)
        mask = F.pad(seen, (1, 0), value=True)
        longer = Sight(q_length=sight.q_length, k_length=sight.k_length + 1, causal=False, mask=mask)
    q, k, v = _with_sink_key(q, k, v, sinks, scale)
    out = fused_attention([q], k, v, longer, scale, dropout_p)[0].flatten(1, 2)
    return out if blind is None else out.masked_fill(blind, 0.0)


def _with_sink_key(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Two channels hold the score, since one would round it to the queries' dtype; more make a multiple of 8."""
    width, extra = q.shape[3], 2 + -(q.shape[3] + 2) % 8
    score = sinks.to(compute_dtype(q.dtype)) / scale
    high = score.to(q.dtype)
    low = (score - high).detach().to(q.dtype)  # the gradient goes through the first
    channels = F.pad(torch.stack((high, low), dim=-1), (0, extra - 2))[None, :, None]
    of_sink = F.pad(k.new_ones(2), (width, extra - 2)).expand(*k.shape[:2], 1, -1)
    q = torch.cat((q, channels.expand(q.shape[0], -1, q.shape[2], -1)), dim=3)
    return q, torch.cat((of_sink, F.pad(k, (0, extra))), dim=2), F.pad(v, (0, 0, 1, 0))
