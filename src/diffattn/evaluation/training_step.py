"""Seconds of one training step's forward and backward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

from diffattn.data import PreparedData
from diffattn.errors import UserError
from diffattn.evaluation._setting import check_length, clock, device_of, mode, require_positive

__all__ = ["TrainingStepConfig", "measure"]


@dataclass(frozen=True, kw_only=True)
class TrainingStepConfig:
    """What to time.

    Attributes:
        context: tokens in a sequence.
        batch_size: sequences in the step.
        split: where they come from, from its start on.
    """

    context: int = 256
    batch_size: int = 8
    split: str = "train"

    def __post_init__(self) -> None:
        require_positive(self, "context", "batch_size")


def measure(model: PreTrainedModel, data: PreparedData, config: TrainingStepConfig) -> float:
    """One sample of seconds: forward with loss, then backward, in training mode, without the optimizer.

    Gradients start as None and are dropped afterwards; the model's mode is put back. Call it once untimed
    before the samples that count; to compare models, take samples of each in alternation.

    Raises:
        UserError: the split is shorter than the batch, or the context longer than the model's.
    """
    check_length(model, config.context, "a context")
    batch = _batch(data, config).to(device_of(model))
    model.zero_grad(set_to_none=True)
    with mode(model, training=True), torch.enable_grad():
        start = clock(batch.device)
        model(input_ids=batch, labels=batch, use_cache=False).loss.backward()
        seconds = clock(batch.device) - start
    model.zero_grad(set_to_none=True)
    return seconds


def _batch(data: PreparedData, config: TrainingStepConfig) -> torch.Tensor:
    needed = config.batch_size * config.context
    tokens = data.tokens(config.split)[:needed]
    if len(tokens) < needed:
        raise UserError(
            f"the {config.split} split has {len(tokens)} tokens, less than a batch of {needed}: "
            "give more text, a smaller batch or a smaller context"
        )
    return torch.from_numpy(tokens.astype(np.int64)).view(config.batch_size, config.context)
