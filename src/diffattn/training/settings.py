"""How a model is trained: one frozen set of numbers, the same for every variant of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["DTYPES", "TrainingSettings", "require"]

DTYPES = ("float32", "bfloat16")

_LOGS = 66
_CHECKPOINTS = 8


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """What the training of one model does, whatever its attention.

    Attributes:
        tokens: to train on in all, rounded down to whole steps; more than the corpus has means several epochs.
        context: tokens in a sequence.
        batch_size: sequences in one forward.
        gradient_accumulation: forwards to one step of the optimizer.
        learning_rate: its peak, reached after the warm-up.
        min_learning_rate_ratio: of the peak, where the cosine ends.
        warmup_ratio: share of the steps in which the learning rate rises linearly.
        weight_decay: of matrices; vectors (norms, V1's lambda vectors) have none.
        beta1: of AdamW.
        beta2: of AdamW.
        max_grad_norm: gradients are scaled down to this norm; 0 leaves them alone.
        dtype: "float32", or "bfloat16" for autocast with weights kept in float32.
        seed: of initial weights and token order.
        save_every: steps between checkpoints; None for about eight in a run.
        log_every: steps between log entries; None for about 66 in a run.
        gradient_checkpointing: compute activations again in the backward, for less memory.

    Raises:
        ValueError: a number is out of range; the message names it.
    """

    tokens: int
    context: int
    batch_size: int
    learning_rate: float
    gradient_accumulation: int = 1
    min_learning_rate_ratio: float = 0.1
    warmup_ratio: float = 0.05
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    max_grad_norm: float = 1.0
    dtype: str = "float32"
    seed: int = 0
    save_every: int | None = None
    log_every: int | None = None
    gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        require(self, ("tokens", "batch_size", "gradient_accumulation"), "at least 1", lambda x: x >= 1)
        require(self, ("context",), "at least 2", lambda x: x >= 2)
        require(self, ("save_every", "log_every"), "at least 1", lambda x: x is None or x >= 1)
        require(self, ("learning_rate",), "above 0", lambda x: 0 < x < math.inf)
        require(self, ("weight_decay", "max_grad_norm"), "0 or more", lambda x: 0 <= x < math.inf)
        require(self, ("min_learning_rate_ratio", "warmup_ratio"), "from 0 to 1", lambda x: 0 <= x <= 1)
        require(self, ("beta1", "beta2"), "from 0 up to, not including, 1", lambda x: 0 <= x < 1)
        require(self, ("seed",), "from 0 to 4294967295", lambda x: 0 <= x < 2**32)
        require(self, ("dtype",), f"one of {', '.join(DTYPES)}", lambda x: x in DTYPES)
        if self.tokens < self.tokens_per_step:
            raise ValueError(
                f"tokens must fill one step of {self.tokens_per_step:,} "
                f"(batch_size x gradient_accumulation x context), got {self.tokens:,}"
            )

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one step of the optimizer has seen."""
        return self.batch_size * self.gradient_accumulation * self.context

    @property
    def steps(self) -> int:
        """Steps of the optimizer in the whole training."""
        return self.tokens // self.tokens_per_step

    @property
    def warmup_steps(self) -> int:
        """Steps in which the learning rate rises."""
        return round(self.steps * self.warmup_ratio)

    @property
    def log_steps(self) -> int:
        """Steps between log entries."""
        return self.log_every or max(1, self.steps // _LOGS)

    @property
    def save_steps(self) -> int:
        """Steps between checkpoints."""
        return self.save_every or max(1, math.ceil(self.steps / _CHECKPOINTS))

    def learning_rate_factor(self, step: int) -> float:
        """The share of the peak learning rate at a step, counted from 0: linear warm-up, then half a cosine."""
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.steps - 1 - self.warmup_steps)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        return self.min_learning_rate_ratio + (1 - self.min_learning_rate_ratio) * cosine

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON has them."""
        return asdict(self)


def require(settings: Any, names: tuple[str, ...], wanted: str, holds: Callable[[Any], bool]) -> None:
    """Raise a ValueError for the first of the named fields that does not hold: its name, what it must be, and is."""
    for name in names:
        value = getattr(settings, name)
        if not holds(value):
            raise ValueError(f"{name} must be {wanted}, got {value}")
