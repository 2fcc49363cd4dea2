"""Questions of one token: accuracy by depth and length, fabrications, false citations, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from diffattn.data.progress import delayed_progress
from diffattn.evaluation._logits import logit_pieces
from diffattn.evaluation._setting import check_tokens, device_of, mode, require_positive, row_generator
from diffattn.evaluation.retrieval_results import (
    Outcomes,
    RetrievalGrid,
    RetrievalRates,
    check_depths,
    grid,
    retrieval_rates,
)
from diffattn.models.embedding import embed
from diffattn.tasks import TokenExamples

__all__ = ["Asked", "RetrievalConfig", "RetrievalResult", "ask", "embed", "measure", "measure_grid"]


@dataclass(frozen=True, kw_only=True)
class RetrievalConfig:
    """How to measure.

    Attributes:
        batch_size: sequences at once; the result does not depend on it.
        depths: at which accuracy is reported, 0 (start) to 1 (end), rising; a question counts at the nearest.
        none_token: the token that says that there is no answer; None for those that are right for the data's
            unanswerable questions.
        normalised_embeddings: each token's embedding is divided by the root mean square of its channels.
        embedding_noise: standard deviation of normal noise added to every channel of every embedding: a noisy
            haystack. See `embed`.
        seed: of that noise.
    """

    batch_size: int = 8
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    none_token: int | None = None
    normalised_embeddings: bool = False
    embedding_noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        require_positive(self, "batch_size")
        check_depths("RetrievalConfig", self.depths)
        if not self.embedding_noise >= 0:
            raise ValueError(f"RetrievalConfig: embedding_noise must be 0 or more, not {self.embedding_noise}")
        if self.seed < 0:
            raise ValueError(f"RetrievalConfig: seed must be 0 or more, not {self.seed}")

    @property
    def changes_embeddings(self) -> bool:
        """Whether the model is given something else than its tokens' own embeddings."""
        return self.normalised_embeddings or self.embedding_noise > 0


@dataclass(frozen=True, kw_only=True)
class RetrievalResult:
    """What was measured.

    Attributes:
        config: how.
        length: tokens of a sequence.
        rates: of the likeliest tokens.
        loss: mean cross-entropy of the right tokens, nats, over all questions, unanswerable ones included; None where
            the model diverged.
    """

    config: RetrievalConfig
    length: int
    rates: RetrievalRates
    loss: float | None

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


class Asked(NamedTuple):
    """What a model said, question by question.

    Attributes:
        predicted: the likeliest token, int64 `[N, Q]`; -1 where the logits are not all finite.
        losses: cross-entropy of the right token, nats, float64 `[N, Q]`.
    """

    predicted: np.ndarray
    losses: np.ndarray


def measure(
    model: PreTrainedModel, data: TokenExamples, config: RetrievalConfig, *, progress: bool = False
) -> RetrievalResult:
    """Ask every question once: the likeliest token of the whole vocabulary is the model's answer.

    One forward a batch, with logits at the questions alone. The model's mode is put back afterwards.

    Raises:
        UserError: the sequences are longer than the model's context, or have tokens that it does not know.
    """
    asked = ask(model, data, config, progress=progress)
    rates = retrieval_rates(_outcomes(asked.predicted, data, config), config.depths)
    loss = None if rates.diverged else float(asked.losses.mean())
    return RetrievalResult(config=config, length=data.tokens.shape[1], rates=rates, loss=loss)


def measure_grid(
    model: PreTrainedModel, data: Mapping[int, TokenExamples], config: RetrievalConfig, *, progress: bool = False
) -> RetrievalGrid:
    """Depth x length: `measure` for the examples of each length, by which they are named."""
    rates = {length: measure(model, part, config, progress=progress).rates for length, part in data.items()}
    return grid(rates, config.depths)


def ask(model: PreTrainedModel, data: TokenExamples, config: RetrievalConfig, *, progress: bool = False) -> Asked:
    """What the model says to each question, for measures that compare question by question; raises as `measure`."""
    count, length = data.tokens.shape
    check_tokens(model, data.tokens)
    parts = []
    with (
        torch.inference_mode(),
        mode(model, training=False),
        delayed_progress(f"Asking at {length:,} tokens", count, enabled=progress) as advance,
    ):
        for first in range(0, count, config.batch_size):
            rows = slice(first, first + config.batch_size)
            parts.append([part.cpu().numpy() for part in _ask_batch(model, data, rows, config)])
            advance(len(parts[-1][0]))
    predicted, losses = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Asked(predicted, losses)


def _ask_batch(
    model: PreTrainedModel, data: TokenExamples, rows: slice, config: RetrievalConfig
) -> tuple[Tensor, Tensor]:
    device = device_of(model)
    tokens, queries, answers = (
        torch.from_numpy(part[rows]).to(device) for part in (data.tokens, data.queries, data.answers)
    )
    output = model.base_model(**_inputs(model, tokens, rows.start, config), use_cache=False)
    hidden = output.last_hidden_state
    output.last_hidden_state = hidden.gather(1, queries[..., None].expand(-1, -1, hidden.shape[-1]))
    logits = torch.cat([part for _, part in logit_pieces(model, queries, output)], dim=1)
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), answers.flatten(), reduction="none")
    predicted = logits.argmax(-1).masked_fill(~logits.isfinite().all(-1), -1)
    return predicted, losses.view(answers.shape).double()


def _inputs(model: PreTrainedModel, tokens: Tensor, first: int, config: RetrievalConfig) -> dict[str, Tensor]:
    """What the model is given; each sequence's noise has its own seed, whatever batch it is in."""
    if not config.changes_embeddings:
        return {"input_ids": tokens}
    rows = [
        embed(
            model,
            row[None],
            normalised=config.normalised_embeddings,
            sigma=config.embedding_noise,
            generator=row_generator(config.seed, first + index),
        )
        for index, row in enumerate(tokens)
    ]
    return {"inputs_embeds": torch.cat(rows)}


def _outcomes(predicted: np.ndarray, data: TokenExamples, config: RetrievalConfig) -> Outcomes:
    answerable, false = data.answerable, data.false_answers
    none = data.answers[~answerable] if config.none_token is None else np.array([config.none_token])
    return Outcomes(
        correct=predicted == data.answers,
        answerable=answerable,
        refused=np.isin(predicted, none) if len(none) else None,
        cited=np.any((predicted[..., None] == false) & (false >= 0), axis=-1),
        citable=np.any(false >= 0, axis=-1),
        depths=data.depths,
        finite=bool((predicted >= 0).all()),
    )
