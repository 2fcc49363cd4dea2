"""What the training of a small model on a generated task is told."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from diffattn.training.settings import require

__all__ = ["TaskTraining"]


@dataclass(frozen=True, kw_only=True)
class TaskTraining:
    """How a model learns a task whose examples are drawn anew in each step, at growing lengths.

    Attributes:
        learning_rate: constant after the warm-up.
        max_steps: of the optimizer; where the last length's threshold is missed, all of them are taken.
        tokens_per_step: a step has as many sequences as fit into this, at least one.
        lengths: tokens of a sequence, rising; the next one comes when the threshold is reached at the one before.
        threshold: accuracy, above 0 to 1, over the questions of the latest `window` steps.
        window: steps, all of them at the present length.
        warmup_steps: in which the learning rate rises linearly.
        weight_decay: of matrices; vectors have none.
        max_grad_norm: gradients are scaled down to this norm; 0 leaves them alone.
        betas: of AdamW.
        embedding_noise: sigma of `models.embedding.embed`.
        normalised_embeddings: as there.
        extra_steps: after the last length's threshold is reached, where `max_steps` allows them.
        seed: of the initial weights, the examples and the noise.
        log_every: steps between entries of the curves.

    Raises:
        ValueError: a number is out of range; the message names it.
    """

    learning_rate: float
    max_steps: int
    tokens_per_step: int = 1024
    lengths: tuple[int, ...] = (32, 64, 128, 256)
    threshold: float = 0.95
    window: int = 10
    warmup_steps: int = 20
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    betas: tuple[float, float] = (0.9, 0.95)
    embedding_noise: float = 0.0
    normalised_embeddings: bool = False
    extra_steps: int = 0
    seed: int = 0
    log_every: int = 10

    def __post_init__(self) -> None:
        require(self, ("max_steps", "tokens_per_step", "window", "log_every"), "at least 1", lambda x: x >= 1)
        require(self, ("warmup_steps", "extra_steps"), "0 or more", lambda x: x >= 0)
        require(self, ("learning_rate",), "above 0", lambda x: 0 < x < math.inf)
        require(self, ("weight_decay", "max_grad_norm", "embedding_noise"), "0 or more", lambda x: 0 <= x < math.inf)
        require(self, ("threshold",), "above 0, at most 1", lambda x: 0 < x <= 1)
        require(self, ("betas",), "two numbers from 0 up to, not including, 1", _are_betas)
        require(self, ("lengths",), "rising numbers, the first at least 2", _are_lengths)
        require(self, ("seed",), "from 0 to 4294967295", lambda x: 0 <= x < 2**32)

    def sequences(self, length: int) -> int:
        """How many sequences of this many tokens a step has."""
        return max(1, self.tokens_per_step // length)

    def learning_rate_factor(self, step: int) -> float:
        """The share of the learning rate at a step, counted from 0."""
        return min(1.0, (step + 1) / max(1, self.warmup_steps))

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON has them."""
        return {**asdict(self), "lengths": list(self.lengths), "betas": list(self.betas)}


def _are_betas(values: tuple[float, ...]) -> bool:
    return len(values) == 2 and all(0 <= value < 1 for value in values)


def _are_lengths(values: tuple[int, ...]) -> bool:
    return bool(values) and values[0] >= 2 and all(a < b for a, b in pairwise(values))
