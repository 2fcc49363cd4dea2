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
        train_tokens: of the whole training; None for 20 a parameter.
        train_context: length of the training sequences; most tokens are trained short of the target.
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
    train_context: int = 4096
    prices: Prices = field(default_factory=Prices)
    pilot: Mapping[str, Any] | None = field(default=None, hash=False)
    difference: float = 0.01

    def __post_init__(self) -> None:
        if self.variant not in CANDIDATES:
            raise ValueError(f"variant: expected one of {', '.join(CANDIDATES)}, got {self.variant!r}")
        for name, least in (("contexts", 2), ("batches", 1)):
            values = getattr(self, name)
            if not values or min(values) < least:
                raise ValueError(f"{name}: expected whole numbers of {least} or more, got {values}")
        for name in ("queries", "train_context"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 1 or more, got {getattr(self, name)}")
        if self.dtype not in BYTES:
            raise ValueError(f"dtype: expected one of {', '.join(BYTES)}, got {self.dtype!r}")
        if self.train_tokens is not None and not 0 < self.train_tokens < float("inf"):
            raise ValueError(f"train_tokens: expected above 0, got {self.train_tokens}")
        self.hardware.rate(self.dtype)

    @property
    def situation(self) -> Situation:
        return Situation(
            context=max(self.contexts),
            training=self.training,
            task=self.task,
            long_data=self.long_data,
            long_evaluation=self.long_evaluation,
        )
