"""One tensor read by several calls, its gradients summed in float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["share"]


def share(x: Tensor, times: int) -> tuple[Tensor, ...]:
    """`times` views of `x`, for as many calls.

    Autograd would add up the calls' gradients in x's own dtype; in bfloat16, with many query heads on one key/value
    head, that costs several times the error of a single call. Here they are added in float32 and rounded once.
    """
    if times == 1 or not x.requires_grad or x.dtype not in (torch.bfloat16, torch.float16):
        return (x,) * times
    views: tuple[Tensor, ...] = _Share.apply(x, times)
    return views


class _Share(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, times: int) -> tuple[Tensor, ...]:
        return tuple(x.view_as(x) for _ in range(times))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].float()
        for grad in grads[1:]:
            total = total + grad
        return total.to(grads[0].dtype), None
