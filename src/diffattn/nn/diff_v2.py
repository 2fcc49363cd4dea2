"""DIFF V2."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from diffattn.nn.differential import DifferentialLayer
from diffattn.nn.lambdas import LambdaV2

__all__ = ["DiffAttentionV2"]


class DiffAttentionV2(DifferentialLayer, LambdaV2):
    """Differential attention as in Microsoft's Differential Transformer V2 (January 2026).

    Twice the query heads on the baseline's keys and values, one ordinary attention call, no norm:

        head = softmax(q1 k^T / sqrt D) v - sigmoid(x w) softmax(q2 k^T / sqrt D) v

    lambda is a number a token and head, if nothing else is chosen. Against a baseline with the same `num_heads`,
    key/value heads and width, the cache is the same; `q_proj` doubles and `lambda_proj` is new.

    Args:
        num_heads: output heads H, the baseline's own; `map_dim` defaults to `hidden_size / H`.
        lambda_bias: whether `lambda_proj` has a bias (the authors' has none).
        lambda_granularity: "token", the authors'; "head" or "layer", the sigmoid of one learned number each; "fixed",
            lambda_init itself.
        lambda_init: where "head" and "layer" start.

    The other arguments as in `AttentionLayer`.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        *args: Any,
        lambda_bias: bool = False,
        lambda_granularity: str = "token",
        lambda_init: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(hidden_size, num_heads, *args, **kwargs)
        weight = self.q_proj.weight
        self.set_lambda(lambda_init, lambda_granularity)
        self.add_lambda(hidden_size, num_heads, lambda_bias, device=weight.device, dtype=weight.dtype)
        self.reset_own()

    def reset_own(self, init: Any = nn.init) -> None:
        self.reset_lambda(init)

    def extra(self, hidden: Tensor) -> Tensor | float:
        return self.lambda_of(hidden)
