"""What bfloat16 does to a model's logits: those under autocast against those in float32."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from diffattn.evaluation._logits import hidden_states, logit_pieces
from diffattn.evaluation._setting import device_of, mode, require_positive, token_batches

__all__ = ["Bfloat16ErrorConfig", "Bfloat16ErrorResult", "measure"]


@dataclass(frozen=True, kw_only=True)
class Bfloat16ErrorConfig:
    """How to measure: `batch_size` sequences at once, on which the result does not depend but for rounding."""

    batch_size: int = 1

    def __post_init__(self) -> None:
        require_positive(self, "batch_size")


@dataclass(frozen=True, kw_only=True)
class Bfloat16ErrorResult:
    """What was measured, over all positions and the whole vocabulary.

    Attributes:
        config: how.
        tokens: how many.
        rms: RMS of the differences over that of the float32 logits; None where some logit is not finite.
        largest: the largest absolute difference over the RMS of the float32 logits; None likewise.
        same_likeliest: share of positions at which both have the same likeliest next token.
        not_finite: logits that are not finite in one or the other.
    """

    config: Bfloat16ErrorConfig
    tokens: int
    rms: float | None
    largest: float | None
    same_likeliest: float
    not_finite: int

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def measure(model: PreTrainedModel, tokens: np.ndarray, config: Bfloat16ErrorConfig) -> Bfloat16ErrorResult:
    """Run the sequences through the model twice; the logits of a whole sequence are never in memory at once.

    Args:
        model: a causal language model with float32 parameters, on any device.
        tokens: int `[N, T]`.
        config: the batch size.

    Raises:
        UserError: sequences longer than the model's positions, or tokens that it does not know.
    """
    errors = _Errors()
    device = device_of(model).type
    batches = token_batches(model, tokens, config.batch_size)
    with torch.inference_mode(), mode(model, training=False):
        for ids in batches:
            exact = hidden_states(model, ids)
            with torch.autocast(device, torch.bfloat16):
                rounded = hidden_states(model, ids)
            pieces = logit_pieces(model, ids, exact), logit_pieces(model, ids, rounded)
            for _, logits in pieces[0]:
                with torch.autocast(device, torch.bfloat16):
                    _, other = next(pieces[1])
                errors.add(logits, other)
    return errors.result(config, tokens.size)


class _Errors:
    """Sums over the logits seen so far."""

    def __init__(self) -> None:
        self._squares = self._of_differences = self._largest = 0.0
        self._same = self._not_finite = self._count = 0

    def add(self, exact: Tensor, rounded: Tensor) -> None:
        """Take both logits `[B, positions, vocabulary]`."""
        difference = rounded.float() - exact.float()
        self._count += difference.numel()
        self._not_finite += int((~torch.isfinite(difference)).sum())
        self._squares += exact.double().square().sum().item()
        self._of_differences += difference.double().square().sum().item()
        self._largest = max(self._largest, difference.abs().max().item())
        self._same += int((exact.argmax(-1) == rounded.argmax(-1)).sum())

    def result(self, config: Bfloat16ErrorConfig, tokens: int) -> Bfloat16ErrorResult:
        known = not self._not_finite and self._squares > 0
        return Bfloat16ErrorResult(
            config=config,
            tokens=tokens,
            rms=math.sqrt(self._of_differences / self._squares) if known else None,
            largest=self._largest / math.sqrt(self._squares / self._count) if known else None,
            same_likeliest=self._same / tokens,
            not_finite=self._not_finite,
        )
