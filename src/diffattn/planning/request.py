"""What a plan is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from diffattn.planning.cost import Prices
from diffattn.planning.floor import NoiseAssumptions
from diffattn.planning.hardware import BYTES, MACHINES, Hardware
from diffattn.planning.verdict import Situation

__all__ = ["CANDIDATES", "PlanRequest"]

#: Variants that a plan can be about.
CANDIDATES = ("v2", "v1", "gated")
_SCRATCH_CONTEXT = 4096
_LARGEST = 10**9


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What to plan for.

    Attributes:
        config: the fields of a config.json.
        name: of the model.
        variant: one of `CANDIDATES`, to look at beside the baseline.
        contexts: target lengths, tokens; the verdict is about the longest.
        batches: sequences decoded at once.
        queries: tokens a decode step of each sequence; more than one with speculation.
        dtype: of weights and cache, one of `BYTES`.
        hardware: the machine of the roofline.
        noise: assumptions of the noise model.
        training, task, long_data, long_evaluation: see `Situation`.
        train_tokens: of the whole training; None for 20 a parameter (of a mixture: an active one).
        train_context: length of the training sequences; None for 4,096 from scratch, where most tokens are trained
            short of the target, and else for the target itself.
        pairs: pairs of runs that can be paid for.
        prices: of training.
        pilot: a comparison's results; None for none.
        difference: loss difference that experiments are to show, nats a token.

    Raises:
        ValueError: a number out of its range; the message names it.
    """

    config: Mapping[str, Any] = field(hash=False)
    name: str
    variant: str = "v2"
    contexts: tuple[int, ...] = (4096, 32768, 131072)
    batches: tuple[int, ...] = (1, 16)
    queries: int = 1
    dtype: str = "bfloat16"
    hardware: Hardware = MACHINES["h100"]
    noise: NoiseAssumptions = field(default_factory=NoiseAssumptions)
    training: str | None = None
    task: str | None = None
    long_data: bool | None = None
    long_evaluation: bool | None = None
    train_tokens: float | None = None
    train_context: int | None = None
    pairs: int = 3
    prices: Prices = field(default_factory=Prices)
    pilot: Mapping[str, Any] | None = field(default=None, hash=False)
    difference: float = 0.01

    def __post_init__(self) -> None:
        if self.variant not in CANDIDATES:
            raise ValueError(f"variant: expected one of {', '.join(CANDIDATES)}, got {self.variant!r}")
        for name, least in (("contexts", 2), ("batches", 1)):
            values = getattr(self, name)
            if not values or min(values) < least or max(values) > _LARGEST:
                raise ValueError(f"{name}: expected whole numbers from {least} to {_LARGEST:,}, got {values}")
        for name, least in (("queries", 1), ("train_context", 1), ("pairs", 2)):
            value = getattr(self, name)
            if value is not None and not least <= value <= _LARGEST:
                raise ValueError(f"{name}: expected a whole number from {least} to {_LARGEST:,}, got {value}")
        if self.dtype not in BYTES:
            raise ValueError(f"dtype: expected one of {', '.join(BYTES)}, got {self.dtype!r}")
        if self.train_tokens is not None and not 0 < self.train_tokens < float("inf"):
            raise ValueError(f"train_tokens: expected above 0, got {self.train_tokens}")
        if not 0 < self.difference < float("inf"):
            raise ValueError(f"difference: expected above 0, got {self.difference}")
        self.hardware.rate(self.dtype)

    @property
    def from_scratch(self) -> bool:
        """Whether the training is, or may be, one from scratch."""
        return self.training in (None, "pretraining")

    @property
    def train_length(self) -> int:
        """Tokens of a training sequence."""
        return self.train_context or (_SCRATCH_CONTEXT if self.from_scratch else max(self.contexts))

    @property
    def situation(self) -> Situation:
        return Situation(
            context=max(self.contexts),
            training=self.training,
            task=self.task,
            long_data=self.long_data,
            long_evaluation=self.long_evaluation,
        )
