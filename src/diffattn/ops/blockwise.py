"""Attention under any restriction on the CPU's fused kernel, without a Tq x Tk matrix, forward or backward.

One operator of torch: traced code sees a single call, whatever the lengths. Inside it walks the blocks of `tiles.py`.
The backward builds each block's mask again; it keeps the inputs, the output and one number a query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from diffattn.ops.tile_kernel import add_sink, sink_gradient, tile_backward, tile_forward, tiles_of
from diffattn.ops.tiles import plan
from diffattn.ops.types import Sight

__all__ = ["blockwise_attention"]


def blockwise_attention(
    q: Tensor, k: Tensor, v: Tensor, sight: Sight, scale: float, sinks: Tensor | None = None
) -> Tensor:
    """`softmax(q k^T scale) v` on the CPU, whatever a query may see.

    Args:
        q: `[B, Hkv, G, Tq, W]`, G query heads to a key/value head.
        k, v: `[B, Hkv, Tk, W]`.
        sight: which keys a query may see; where its mask has heads, Hkv divides them, and a group is made of one or
            more such sets (the signal maps, then the noise maps).
        sinks: `[B, Hkv, G]`, float64 for float64 queries, else float32: the score of one more key, whose value is 0.

    Returns:
        `[B, Hkv, G, Tq, W]` in the dtype of `q`; rows that see nothing are 0.
    """
    window = [sight.window] if isinstance(sight.window, int) else sight.window and list(sight.window)
    q_ids, k_ids = sight.segment_ids or (None, None)
    attend = _attend if torch.compiler.is_compiling() else _Attention.apply
    out, _ = attend(q, k, v, sinks, sight.mask, sight.k_lengths, q_ids, k_ids, sight.causal, window, scale)
    return out


@torch.library.custom_op("diffattn::blockwise_attention", mutates_args=(), device_types="cpu")
def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sinks: Tensor | None,
    mask: Tensor | None,
    k_lengths: Tensor | None,
    q_ids: Tensor | None,
    k_ids: Tensor | None,
    causal: bool,
    window: list[int] | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    sight = _sight(q, k, mask, k_lengths, q_ids, k_ids, causal, window)
    out, lse = _empty(q)
    for block in plan(sight, q.shape[0]):
        at = (block.batch, slice(None), slice(None), block.queries)
        tile_forward(list(tiles_of(block, q, k, v, sight)), out[at], lse[at], scale)
        if sinks is not None:
            add_sink(out[at], lse[at], sinks[block.batch])
    return out, lse


@torch.library.custom_op("diffattn::blockwise_attention_backward", mutates_args=(), device_types="cpu")
def _attend_backward(
    grad: Tensor,
    out: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sinks: Tensor | None,
    mask: Tensor | None,
    k_lengths: Tensor | None,
    q_ids: Tensor | None,
    k_ids: Tensor | None,
    causal: bool,
    window: list[int] | None,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    sight = _sight(q, k, mask, k_lengths, q_ids, k_ids, causal, window)
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    dq, dk, dv, dsinks = (torch.zeros(x.shape, dtype=lse.dtype) for x in (q, k, v, _or_empty(sinks, q)))
    for block in plan(sight, q.shape[0]):
        at = (block.batch, slice(None), slice(None), block.queries)
        for tile in tiles_of(block, q, k, v, sight):
            sums = (dq[at], dk[block.batch, :, tile.keys], dv[block.batch, :, tile.keys])
            tile_backward(grad[at], out[at], lse[at], tile, scale, sums)
        if sinks is not None:
            dsinks[block.batch] += sink_gradient(grad[at], out[at], lse[at], sinks[block.batch])
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), dsinks


def _or_empty(sinks: Tensor | None, q: Tensor) -> Tensor:
    """What stands for the gradient of sinks that are not there: an operator of torch returns tensors alone."""
    return q.new_empty(q.shape[0], 0) if sinks is None else sinks


def _sight(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    k_lengths: Tensor | None,
    q_ids: Tensor | None,
    k_ids: Tensor | None,
    causal: bool,
    window: list[int] | None,
) -> Sight:
    return Sight(
        q_length=q.shape[3],
        k_length=k.shape[2],
        causal=causal,
        window=None if window is None else window[0] if len(window) == 1 else (window[0], window[1]),
        mask=mask,
        k_lengths=k_lengths,
        segment_ids=None if q_ids is None or k_ids is None else (q_ids, k_ids),
    )


def _empty(q: Tensor) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp of rows that see nothing; laid out so that a layer's `[B, Tq, H * W]` is a view."""
    batch, kv_heads, group, length, width = q.shape
    out = q.new_zeros(batch, length, kv_heads, group, width).permute(0, 2, 3, 1, 4)
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    return out, torch.zeros(batch, kv_heads, group, length, dtype=wide, device=q.device)


@_attend.register_fake
def _attend_fake(q: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return _empty(q)


@_attend_backward.register_fake
def _attend_backward_fake(
    grad: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, *others: Any
) -> Any:
    dsinks = torch.empty_like(_or_empty(sinks, q), dtype=lse.dtype)
    return *(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v)), dsinks


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:8])
    ctx.rest = inputs[8:]


def _derive(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    out, lse, *inputs = ctx.saved_tensors
    dq, dk, dv, dsinks = _Derivative.apply(grad, out, lse, *inputs, *ctx.rest)
    return dq, dk, dv, None if inputs[3] is None else dsinks, *[None] * 7


class _Attention(torch.autograd.Function):
    """The operator under autograd and `torch.func`, whose gradients the registration of an operator does not reach."""

    generate_vmap_rule = True
    setup_context = staticmethod(_save)
    backward = staticmethod(_derive)

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        out: tuple[Tensor, Tensor] = _attend(*inputs)
        return out


class _Derivative(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        out: tuple[Tensor, Tensor, Tensor, Tensor] = _attend_backward(*inputs)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError("sdpa: torch's fused kernels have no second derivative; use backend='reference'")


_attend.register_autograd(_derive, setup_context=_save)


def _over_batch(op: Any, q_at: int) -> Callable[..., Any]:
    """The rule of `torch.func.vmap`: the mapped dimension becomes part of the batch."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        n = info.batch_size
        batch = args[q_at].movedim(in_dims[q_at], 0).shape[1] if in_dims[q_at] is not None else args[q_at].shape[0]

        def fold(x: Any, dim: int | None) -> Any:
            if not isinstance(x, Tensor):
                return x
            x = x.expand(n, *x.shape) if dim is None else x.movedim(dim, 0)
            return x.expand(n, batch, *x.shape[2:]).flatten(0, 1)

        outs = op(*map(fold, args, in_dims))
        return tuple(out.unflatten(0, (n, batch)) for out in outs), (0,) * len(outs)

    return rule


_attend.register_vmap(_over_batch(_attend, 0))
_attend_backward.register_vmap(_over_batch(_attend_backward, 3))
