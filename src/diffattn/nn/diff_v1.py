"""DIFF V1."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from diffattn.nn.differential import DifferentialLayer
from diffattn.nn.head_norm import HeadNorm
from diffattn.nn.lambdas import LambdaV1, lambda_init_schedule

__all__ = ["DiffAttentionV1"]


class DiffAttentionV1(DifferentialLayer, LambdaV1):
    """Differential attention as in Ye et al., Differential Transformer (arXiv:2410.05258, ICLR 2025).

    Two maps a head, each with a key of its own, on one value of twice the width:

        head = (1 - lambda_init) HeadNorm((softmax(q1 k1^T / sqrt D) - lambda softmax(q2 k2^T / sqrt D)) v)
        lambda = exp(lq1.lk1) - exp(lq2.lk2) + lambda_init

    Against a baseline with 2H heads of width D and 2Hkv key/value heads it has H heads and Hkv key/value heads, the
    same D, and the same parameters but for the vectors and the norm (6D). Under grouped queries every head of group g
    uses the keys 2g and 2g + 1, as in the official flash code (its plain code does not).

    Args:
        num_heads: output heads H, half of the baseline's; `map_dim` defaults to `hidden_size / (2 H)`.
        layer_idx: depth, counted from 0, for the schedule of lambda_init.
        lambda_init: a number instead of the schedule `0.8 - 0.6 exp(-0.3 layer_idx)`.
        lambda_granularity: "layer", the paper's; "head", four vectors a head; "token", a sigmoid of a projection as in
            V2, which starts near lambda_init; "fixed", lambda_init itself.
        head_norm: False leaves out the norm, and with it the factor (1 - lambda_init).

    The other arguments as in `AttentionLayer`.
    """

    KEYS = 2
    VALUE_WIDTH = 2

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        *args: Any,
        layer_idx: int = 0,
        lambda_init: float | None = None,
        lambda_granularity: str = "layer",
        head_norm: bool = True,
        norm_eps: float = 1e-5,
        **kwargs: Any,
    ) -> None:
        super().__init__(hidden_size, num_heads, *args, norm_eps=norm_eps, **kwargs)
        made: dict[str, Any] = {"device": self.q_proj.weight.device, "dtype": self.q_proj.weight.dtype}
        init = lambda_init_schedule(layer_idx) if lambda_init is None else lambda_init
        self.set_lambda(init, lambda_granularity)
        self.add_lambda(hidden_size, num_heads, self.map_dim, **made)
        self.head_norm = HeadNorm(self.value_dim, norm_eps, **made) if head_norm else None
        self.reset_own()

    def reset_own(self, init: Any = nn.init) -> None:
        self.reset_lambda(init)

    def extra(self, hidden: Tensor) -> Tensor | float:
        return self.lambda_of(hidden)

    def output(self, context: Tensor, extra: Any = None) -> Tensor:
        if self.head_norm is not None:
            context = self.head_norm(context) * (1.0 - self.lambda_init)
        return super().output(context)
