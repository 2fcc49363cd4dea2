"""Causal attention with fewer queries than keys on the CPU's fused kernel, without a Tq x Tk matrix.

The last Tq keys make a causal square, the keys before them are seen by every query. Each part is one fused call; the
log-sum-exps of both give each part's share of the softmax. A backward call that is given the joined output and
log-sum-exp yields that part's gradients exactly (Liu et al., Ring Attention, arXiv:2310.01889, appendix).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["causal_rectangle"]

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def causal_rectangle(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Query i of Tq sees the keys up to i + Tk - Tq.

    Args:
        q: `[B, Hkv, G, Tq, W]`, on the CPU.
        k, v: `[B, Hkv, Tk, W]`, Tk > Tq.

    Returns:
        `[B, Hkv, G, Tq, W]`.
    """
    out: Tensor = _CausalRectangle.apply(q, k, v, scale)
    return out


class _CausalRectangle(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        (k_before, v_before), (k_square, v_square) = _parts(q, k, v)
        before, before_lse = _forward(q.flatten(2, 3), k_before, v_before, scale=scale)
        squares = [_forward(q[:, :, j], k_square, v_square, 0.0, True, scale=scale) for j in range(q.shape[2])]
        square = torch.stack([out for out, _ in squares], dim=2)
        square_lse = torch.stack([lse for _, lse in squares], dim=2)
        before, before_lse = before.view_as(square), before_lse.view_as(square_lse)
        lse = torch.logaddexp(before_lse, square_lse)
        out = _share(before, before_lse, lse).add_(_share(square, square_lse, lse)).to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        if torch.is_grad_enabled():
            raise RuntimeError("sdpa: fewer queries than keys have no second derivative; use backend='reference'")
        q, k, v, out, lse = ctx.saved_tensors
        (k_before, v_before), (k_square, v_square) = _parts(q, k, v)
        folded = tuple(t.flatten(2, 3) for t in (grad, q, out, lse))
        dq, dk_before, dv_before = _part_backward(folded, k_before, v_before, ctx.scale, causal=False)
        dq = dq.reshape(q.shape)
        dk_square, dv_square = (torch.zeros_like(x, dtype=lse.dtype) for x in (k_square, v_square))
        for j in range(q.shape[2]):
            member = tuple(t[:, :, j] for t in (grad, q, out, lse))
            dq_j, dk_j, dv_j = _part_backward(member, k_square, v_square, ctx.scale, causal=True)
            dq[:, :, j] += dq_j
            dk_square += dk_j
            dv_square += dv_j
        dk, dv = (torch.cat([a, b.to(a.dtype)], 2) for a, b in ((dk_before, dk_square), (dv_before, dv_square)))
        return dq, dk, dv, None


def _parts(q: Tensor, k: Tensor, v: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    start = k.shape[2] - q.shape[3]
    return (k[:, :, :start], v[:, :, :start]), (k[:, :, start:], v[:, :, start:])


def _share(out: Tensor, lse: Tensor, joined: Tensor) -> Tensor:
    """One part's contribution, in the log-sum-exps' dtype."""
    return out.to(lse.dtype) * torch.exp(lse - joined).unsqueeze(-1)


def _part_backward(
    rows: tuple[Tensor, ...], k: Tensor, v: Tensor, scale: float, *, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    grad, q, out, lse = rows
    dq, dk, dv = _backward(grad, q, k, v, out, lse, 0.0, causal, scale=scale)
    return dq, dk, dv
