"""What a change of a model does to its loss and its retrieval, sequence by sequence against the unchanged model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from diffattn.evaluation.head_estimates import estimate
from diffattn.evaluation.head_results import Estimate
from diffattn.evaluation.retrieval import RetrievalConfig, ask
from diffattn.evaluation.sequence_losses import sequence_losses
from diffattn.tasks import TokenExamples

__all__ = ["Effect", "Sample", "Scores", "effect", "mean_scores", "scores"]

_NAMES = ("loss", "accuracy", "answer_loss")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """What to measure on; at least one of both.

    Attributes:
        tokens: for the next-token loss, int64 `[N, T]`; None for no such loss.
        examples: for retrieval; None for none.
    """

    tokens: np.ndarray | None = None
    examples: TokenExamples | None = None

    def __post_init__(self) -> None:
        if self.tokens is None and self.examples is None:
            raise ValueError("Sample: expected tokens, examples or both, got neither")
        if self.examples is not None and not self.examples.answerable.any():
            raise ValueError("Sample: examples: expected an answerable question or more, got none")


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """One value a sequence, each float64 `[N]`; None for what was not measured.

    Attributes:
        loss: next-token loss of each row of the tokens, nats.
        accuracy: share right of a sequence's answerable questions; sequences without any are left out.
        answer_loss: mean cross-entropy of their right tokens, nats.
    """

    loss: np.ndarray | None
    accuracy: np.ndarray | None
    answer_loss: np.ndarray | None


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Means over sequences, and of the differences to the unchanged model, with a t interval over sequences.

    None for what was not measured, and all None where the changed model's numbers are not finite (`diverged`).
    """

    loss: float | None
    loss_difference: Estimate | None
    accuracy: float | None
    accuracy_difference: Estimate | None
    answer_loss: float | None
    answer_loss_difference: Estimate | None
    diverged: bool


def scores(model: PreTrainedModel, data: Sample, retrieval: RetrievalConfig) -> Scores:
    """Of the model as it is now; the batch size is `retrieval`'s."""
    loss = None if data.tokens is None else sequence_losses(model, data.tokens, retrieval.batch_size)
    if data.examples is None:
        return Scores(loss=loss, accuracy=None, answer_loss=None)
    asked, counted = ask(model, data.examples, retrieval), data.examples.answerable
    # An answer that is not a number is wrong, and makes the loss none either.
    right, losses = asked.predicted == data.examples.answers, np.where(asked.predicted < 0, np.nan, asked.losses)
    return Scores(loss=loss, accuracy=_means(right, counted), answer_loss=_means(losses, counted))


def mean_scores(of: Scores) -> dict[str, float | None]:
    """`loss`, `accuracy` and `answer_loss`, means over sequences; None for what was not measured or is not finite."""
    return {name: _finite_mean(getattr(of, name)) for name in _NAMES}


def effect(before: Scores, after: Scores) -> Effect:
    """The changed model's scores against those of the unchanged one; no differences where that one diverged."""
    measured = [name for name in _NAMES if getattr(after, name) is not None]
    diverged = not all(np.isfinite(getattr(after, name)).all() for name in measured)
    fields: dict[str, Any] = {}
    for name in _NAMES:
        changed, plain = getattr(after, name), getattr(before, name)
        fields[name] = None if diverged else _finite_mean(changed)
        known = fields[name] is not None and _finite_mean(plain) is not None
        fields[f"{name}_difference"] = estimate(changed - plain) if known else None
    return Effect(**fields, diverged=diverged)


def _finite_mean(values: np.ndarray | None) -> float | None:
    return None if values is None or not np.isfinite(values).all() else float(values.mean())


def _means(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    sizes = counted.sum(1)
    return (np.where(counted, values, 0).sum(1) / np.maximum(1, sizes))[sizes > 0]
