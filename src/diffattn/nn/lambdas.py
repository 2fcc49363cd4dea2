"""Lambda of DIFF V1 and its depth schedule."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["LambdaV1", "lambda_init_schedule"]

# exp(10) = 22,026: far above any useful lambda, and its product with an attention output still fits float16.
LARGEST_EXPONENT = 10.0


def lambda_init_schedule(layer_idx: int) -> float:
    """`0.8 - 0.6 exp(-0.3 l)`, l counted from 0: .2000 .3555 .4707 ... .8 (Ye et al., arXiv:2410.05258, eq. 3)."""
    return 0.8 - 0.6 * math.exp(-0.3 * layer_idx)


class LambdaV1(nn.Module):
    """Adds the four vectors of DIFF V1 to a layer: `exp(lq1.lk1) - exp(lq2.lk2) + lambda_init`.

    A mixin, so that the parameters carry the names of public checkpoints (`lambda_q1` and so on, one set a layer).
    """

    lambda_q1: nn.Parameter
    lambda_k1: nn.Parameter
    lambda_q2: nn.Parameter
    lambda_k2: nn.Parameter
    lambda_init: float
    learn_lambda: bool

    VECTORS = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")

    def add_lambda(
        self,
        dim: int,
        lambda_init: float,
        learn_lambda: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        self.lambda_init = lambda_init
        self.learn_lambda = learn_lambda
        for name in self.VECTORS if learn_lambda else ():
            setattr(self, name, nn.Parameter(torch.empty(dim, device=device, dtype=dtype)))

    def reset_lambda(self, init: Any = nn.init) -> None:
        """Normal with standard deviation 0.1."""
        for name in self.VECTORS if self.learn_lambda else ():
            init.normal_(getattr(self, name), std=0.1)

    def lambda_value(self) -> Tensor | float:
        """Lambda, 0-d, float32 or wider, finite for any finite vectors; the number `lambda_init` where it is fixed.

        In the parameters' own dtype exp overflows past a dot product of 11 in float16, 88 in bfloat16 and float32;
        the exponents are therefore bounded at 10.
        """
        if not self.learn_lambda:
            return self.lambda_init
        first = self._power(self.lambda_q1, self.lambda_k1)
        return first - self._power(self.lambda_q2, self.lambda_k2) + self.lambda_init

    @staticmethod
    def _power(q: Tensor, k: Tensor) -> Tensor:
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        return torch.exp((q.to(wide) * k.to(wide)).sum().clamp(max=LARGEST_EXPONENT))
