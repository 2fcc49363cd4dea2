"""Lambda of DIFF V1 and V2: where it comes from, and how finely it is learned."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["LambdaV1", "LambdaV2", "StartedLinear", "check_lambda_init", "lambda_init_schedule"]

# exp(10) = 22,026: far above any useful lambda, and its product with an attention output still fits float16.
LARGEST_EXPONENT = 10.0


def lambda_init_schedule(layer_idx: int) -> float:
    """`0.8 - 0.6 exp(-0.3 l)`, l counted from 0: .2000 .3555 .4707 ... .8 (Ye et al., arXiv:2410.05258, eq. 3)."""
    return 0.8 - 0.6 * math.exp(-0.3 * layer_idx)


def check_lambda_init(lambda_init: float, granularity: str, through_sigmoid: Sequence[str]) -> None:
    """Refuses a start that no sigmoid has.

    Raises:
        ValueError: lambda is learned through a sigmoid, and `lambda_init` is not between 0 and 1.
    """
    if granularity in through_sigmoid and not 0.0 < lambda_init < 1.0:
        raise ValueError(
            f"lambda_init: expected a number between 0 and 1 for lambda_granularity={granularity!r}, got {lambda_init}"
        )


class StartedLinear(nn.Linear):
    """A projection whose bias starts at one number, `start`."""

    start = 0.0

    def __init__(self, in_features: int, out_features: int, start: float, **made: Any) -> None:
        super().__init__(in_features, out_features, **made)
        self.start = start
        self.reset_own()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.reset_own()

    def reset_own(self, init: Any = nn.init) -> None:
        """As in `AttentionLayer`."""
        init.constant_(self.bias, self.start)


class _Lambda(nn.Module):
    """Adds lambda to a layer. A mixin, so that the parameters carry the names of public checkpoints."""

    GRANULARITIES: tuple[str, ...]
    THROUGH_SIGMOID: tuple[str, ...]  # those that start at lambda_init through a sigmoid

    lambda_init: float
    lambda_granularity: str
    lambda_proj: nn.Linear

    def set_lambda(self, lambda_init: float, granularity: str) -> None:
        if granularity not in self.GRANULARITIES:
            known = " or ".join(self.GRANULARITIES)
            raise ValueError(f"lambda_granularity: expected {known}, got {granularity!r}")
        check_lambda_init(lambda_init, granularity, self.THROUGH_SIGMOID)
        self.lambda_init = lambda_init
        self.lambda_granularity = granularity

    def lambda_of(self, hidden: Tensor) -> Tensor | float:
        """Lambda as the operator takes it: a number, 0-d, `[1, H or 1, 1]`, or `[B, H, T]`; float32 or wider."""
        if self.lambda_granularity != "token":
            return self.lambda_value()
        return torch.sigmoid(_wide(self.lambda_proj(hidden))).transpose(1, 2)

    @abstractmethod
    def lambda_value(self) -> Tensor | float:
        """Lambda where it is not the token's."""

    def start_logit(self) -> float:
        return math.log(self.lambda_init / (1.0 - self.lambda_init))


class LambdaV1(_Lambda):
    """`exp(lq1.lk1) - exp(lq2.lk2) + lambda_init`, from four vectors a layer or a head; or a sigmoid of the token.

    "layer": `lambda_q1` and so on `[D]`, the paper's. "head": `[H, D]`. "token": `lambda_proj`, whose bias starts so
    that lambda is near lambda_init. "fixed": lambda_init, without parameters.
    """

    GRANULARITIES = ("layer", "fixed", "head", "token")
    THROUGH_SIGMOID = ("token",)
    VECTORS = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")

    lambda_q1: nn.Parameter
    lambda_k1: nn.Parameter
    lambda_q2: nn.Parameter
    lambda_k2: nn.Parameter

    def add_lambda(self, hidden_size: int, num_heads: int, dim: int, **made: Any) -> None:
        if self.lambda_granularity == "token":
            self.lambda_proj = StartedLinear(hidden_size, num_heads, self.start_logit(), **made)
        shape = (num_heads, dim) if self.lambda_granularity == "head" else (dim,)
        for name in self._vectors():
            setattr(self, name, nn.Parameter(torch.empty(shape, **made)))

    def reset_lambda(self, init: Any = nn.init) -> None:
        """Vectors normal with standard deviation 0.1."""
        for name in self._vectors():
            init.normal_(getattr(self, name), std=0.1)

    def lambda_value(self) -> Tensor | float:
        """Lambda, 0-d or `[1, H, 1]`, finite for any finite vectors; the number `lambda_init` where it is fixed.

        In the parameters' own dtype exp overflows past a dot product of 11 in float16, 88 in bfloat16 and float32;
        the exponents are therefore bounded at 10.
        """
        if self.lambda_granularity == "fixed":
            return self.lambda_init
        first, second = _power(self.lambda_q1, self.lambda_k1), _power(self.lambda_q2, self.lambda_k2)
        lam = first - second + self.lambda_init
        return lam if lam.ndim == 0 else lam.view(1, -1, 1)

    def _vectors(self) -> tuple[str, ...]:
        return self.VECTORS if self.lambda_granularity in ("layer", "head") else ()


class LambdaV2(_Lambda):
    """A sigmoid of the token, or of a learned number: "token" is the authors', by `lambda_proj`.

    "head", "layer": `lambda_logit` `[H]` or `[1]`, which starts at lambda_init. "fixed": lambda_init.
    """

    GRANULARITIES = ("token", "head", "layer", "fixed")
    THROUGH_SIGMOID = ("head", "layer")

    lambda_logit: nn.Parameter

    def add_lambda(self, hidden_size: int, num_heads: int, bias: bool, **made: Any) -> None:
        if self.lambda_granularity == "token":
            self.lambda_proj = nn.Linear(hidden_size, num_heads, bias=bias, **made)
        elif self.lambda_granularity != "fixed":
            numbers = num_heads if self.lambda_granularity == "head" else 1
            self.lambda_logit = nn.Parameter(torch.empty(numbers, **made))

    def reset_lambda(self, init: Any = nn.init) -> None:
        if self.lambda_granularity in ("head", "layer"):
            init.constant_(self.lambda_logit, self.start_logit())

    def lambda_value(self) -> Tensor | float:
        """Lambda `[1, H or 1, 1]`; the number `lambda_init` where it is fixed."""
        if self.lambda_granularity == "fixed":
            return self.lambda_init
        return torch.sigmoid(_wide(self.lambda_logit)).view(1, -1, 1)


def _power(q: Tensor, k: Tensor) -> Tensor:
    return torch.exp((_wide(q) * _wide(k)).sum(-1).clamp(max=LARGEST_EXPONENT))


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
