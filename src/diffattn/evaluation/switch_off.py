"""The switch-off test: what a differential model loses without its subtraction, as a whole and head by head."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any

from transformers import PreTrainedModel

from diffattn.data.progress import delayed_progress
from diffattn.evaluation.effects import Effect, Sample, effect, mean_scores, scores
from diffattn.evaluation.interventions import (
    Heads,
    differential_layers,
    lambda_mean,
    lambda_zero,
    mean_lambda,
    uniform_noise_map,
)
from diffattn.evaluation.retrieval import RetrievalConfig

__all__ = ["INTERVENTIONS", "SwitchOffConfig", "SwitchOffResult", "SwitchOffRow", "measure"]

INTERVENTIONS = ("lambda_zero", "lambda_mean", "uniform_noise_map")


@dataclass(frozen=True, kw_only=True)
class SwitchOffConfig:
    """How to measure: one pass over the data for the model, and one for each row of the result.

    Attributes:
        interventions: of `INTERVENTIONS`; all heads together are always measured.
        most_heads: how many heads are measured alone, spread evenly over all; 0 for none.
        retrieval: how questions are asked; its batch size holds for the loss too.
    """

    interventions: tuple[str, ...] = INTERVENTIONS
    most_heads: int = 64
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)

    def __post_init__(self) -> None:
        if not self.interventions or not set(self.interventions) <= set(INTERVENTIONS):
            raise ValueError(
                f"SwitchOffConfig: interventions must be of {', '.join(INTERVENTIONS)}, one or more, "
                f"not {self.interventions}"
            )
        if self.most_heads < 0:
            raise ValueError(f"SwitchOffConfig: most_heads must be 0 or more, not {self.most_heads}")


@dataclass(frozen=True, kw_only=True)
class SwitchOffRow:
    """One intervention; layer and head, counted from 0, are None for all heads together."""

    intervention: str
    layer: int | None
    head: int | None
    effect: Effect


@dataclass(frozen=True, kw_only=True)
class SwitchOffResult:
    """What was measured.

    Attributes:
        config: how.
        loss, accuracy, answer_loss: of the unchanged model, as in `Scores`, means over sequences; None for what was
            not measured or is not finite.
        rows: for each intervention all heads together, then single heads. A positive loss difference: the part that
            was switched off had helped.
        heads: the model has.
        heads_alone: measured alone.
        left_out: interventions that change nothing: "lambda_mean" where lambda is the same for every token (V1).
    """

    config: SwitchOffConfig
    loss: float | None
    accuracy: float | None
    answer_loss: float | None
    rows: tuple[SwitchOffRow, ...]
    heads: int
    heads_alone: int
    left_out: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


_Switch = Callable[[Heads | None], AbstractContextManager[None]]


def measure(
    model: PreTrainedModel, data: Sample, config: SwitchOffConfig, *, progress: bool = False
) -> SwitchOffResult:
    """Loss and retrieval of the model, and with each intervention. Afterwards the model is what it was.

    Lambda's mean is taken over `data.tokens` or, without them, the examples' tokens, in the model's own embeddings.

    Raises:
        UserError: the model has no differential attention, or the data are longer than its context.
    """
    every = [(layer.layer_idx, head) for layer in differential_layers(model) for head in range(layer.num_heads)]
    switches, left_out = _switches(model, data, config)
    alone = _spread(every, config.most_heads)
    places: list[tuple[int, int] | None] = [None, *alone]
    rows = []
    total = 1 + len(switches) * len(places)
    with delayed_progress("Switching off", total, enabled=progress) as advance:
        plain = scores(model, data, config.retrieval)
        advance(1)
        for name, switch in switches.items():
            for place in places:
                with switch(None if place is None else [place]):
                    changed = effect(plain, scores(model, data, config.retrieval))
                layer, head = place or (None, None)
                rows.append(SwitchOffRow(intervention=name, layer=layer, head=head, effect=changed))
                advance(1)
    return SwitchOffResult(
        config=config,
        **mean_scores(plain),
        rows=tuple(rows),
        heads=len(every),
        heads_alone=len(alone),
        left_out=left_out,
    )


def _switches(
    model: PreTrainedModel, data: Sample, config: SwitchOffConfig
) -> tuple[dict[str, _Switch], tuple[str, ...]]:
    """The interventions by name, and those left out."""
    tokens = data.tokens if data.examples is None or data.tokens is not None else data.examples.tokens
    assert tokens is not None
    found: dict[str, _Switch] = {
        "lambda_zero": lambda heads: lambda_zero(model, heads),
        "uniform_noise_map": lambda heads: uniform_noise_map(model, heads),
    }
    if "lambda_mean" in config.interventions:
        lambdas = mean_lambda(model, tokens, config.retrieval.batch_size)
        if lambdas.by_token:
            found["lambda_mean"] = lambda heads: lambda_mean(model, lambdas.means, heads)
    return (
        {name: found[name] for name in config.interventions if name in found},
        tuple(name for name in config.interventions if name not in found),
    )


def _spread(heads: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    count = min(most, len(heads))
    return [heads[index * len(heads) // count] for index in range(count)]
