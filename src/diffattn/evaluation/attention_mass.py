"""Where each head's attention goes when a question is asked: to the answer, the first token, itself, or noise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from diffattn.evaluation._head_maps import head_maps
from diffattn.evaluation._setting import check_tokens, device_of, mode, require_positive
from diffattn.evaluation.answer_spans import Questions, as_spans
from diffattn.evaluation.mass_numbers import map_masses, roles, signed_masses
from diffattn.evaluation.mass_results import HeadMass, Mass, MassSummary, head_mass, summarize
from diffattn.evaluation.recorded_scores import recording

__all__ = ["AttentionMassConfig", "AttentionMassResult", "HeadMass", "Mass", "MassSummary", "measure"]

_SCORES = 1 << 19  # of one head, at once: a layer's are float64 while they are reduced


@dataclass(frozen=True, kw_only=True)
class AttentionMassConfig:
    """How to measure: `batch_size` sequences at once, on which the result does not depend."""

    batch_size: int = 4

    def __post_init__(self) -> None:
        require_positive(self, "batch_size")


@dataclass(frozen=True, kw_only=True)
class AttentionMassResult:
    """What was measured.

    Attributes:
        config: how.
        questions: how many were asked.
        answerable: how many of them have a source.
        summary: of all heads.
        heads: one entry a head, in the order of layers.
    """

    config: AttentionMassConfig
    questions: int
    answerable: int
    summary: MassSummary
    heads: tuple[HeadMass, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def measure(
    model: PreTrainedModel, data: Questions | Sequence[Questions], config: AttentionMassConfig
) -> AttentionMassResult:
    """Share out each head's attention at each question's query; `Mass` says among what.

    Memory grows with a sequence's length, not with its square. The model's mode and attention implementation are put
    back afterwards.

    Args:
        model: a causal language model whose attention goes through transformers' attention interface, on any device;
            the differential models of this package included.
        data: `TokenExamples` of `diffattn.tasks`, `SpanQuestions`, or several of them, as of texts of unlike lengths.
        config: the batch size.

    Raises:
        UserError: sequences longer than the model's positions, tokens that it does not know, or an attention whose
            scores cannot be recorded.
        ValueError: queries or sources that are not positions of their sequences, or no question at all.
    """
    groups = list(data) if isinstance(data, Sequence) else [data]
    masses, answerable = _Masses(), []
    with torch.inference_mode(), mode(model, training=False):
        for questions in groups:
            check_tokens(model, questions.tokens)
            for tokens, queries, sources in _parts(questions, config.batch_size):
                masses.add(model, tokens, queries, sources)
                answerable.append((sources[..., 1] > sources[..., 0]).flatten())
    if not answerable:
        raise ValueError("data: expected one question or more, got none")
    has_source = torch.cat(answerable).numpy()
    heads = tuple(masses.heads(has_source))
    return AttentionMassResult(
        config=config,
        questions=len(has_source),
        answerable=int(has_source.sum()),
        summary=summarize(heads),
        heads=heads,
    )


def _parts(questions: Questions, batch_size: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Tokens `[B, T]`, queries `[B, Q]` and sources `[B, Q, 2]`, few enough questions at once for their scores."""
    tokens = torch.from_numpy(questions.tokens.astype(np.int64))
    queries, sources = as_spans(questions)
    for first in range(0, len(tokens), batch_size):
        rows = slice(first, first + batch_size)
        at_once = max(1, _SCORES // tokens[rows].numel())
        for some, of_some in zip(queries[rows].split(at_once, 1), sources[rows].split(at_once, 1), strict=True):
            if some.numel():
                yield tokens[rows], some, of_some


class _Masses:
    """The numbers of each layer's maps, `[questions, heads]` in parts."""

    def __init__(self) -> None:
        self._layers: dict[int, list[dict[str, dict[str, Tensor]]]] = defaultdict(list)

    def add(self, model: PreTrainedModel, tokens: Tensor, queries: Tensor, sources: Tensor) -> None:
        """Run tokens `[B, T]` with queries `[B, Q]` and sources `[B, Q, 2]` through the model."""
        parts, order = roles(sources.flatten(0, 1), queries.flatten(), tokens.shape[1]), count()

        def receive(layer: nn.Module, scores: Tensor) -> None:
            called = next(order)  # stands for the number of a layer that does not know its own
            first, second, lam, sinks = head_maps(layer, scores, queries)
            maps = {"first": map_masses(_of_questions(first), parts, sinks)}
            if second is not None and lam is not None:
                pair = _of_questions(first), _of_questions(second)
                maps["second"] = map_masses(pair[1], parts)
                maps["signed"] = {"lam": _of_questions(lam), **signed_masses(*pair, _of_questions(lam), parts)}
            index: Any = getattr(layer, "layer_idx", called)
            self._layers[index].append(maps)

        with recording(model, receive, queries):
            # Logits of every position would cost a vocabulary a token.
            model.base_model(input_ids=tokens.to(device_of(model)), use_cache=False)

    def heads(self, has_source: np.ndarray) -> Iterator[HeadMass]:
        for layer, parts in sorted(self._layers.items()):
            columns = {
                name: {number: torch.cat([part[name][number] for part in parts]).double().numpy() for number in numbers}
                for name, numbers in parts[0].items()
            }
            for head in range(columns["first"]["answer"].shape[1]):
                maps = {name: {number: v[:, head] for number, v in of.items()} for name, of in columns.items()}
                yield head_mass(layer, head, maps, has_source)


def _of_questions(values: Tensor) -> Tensor:
    """`[B * Q, H, ...]` from `[B, H, Q, ...]`."""
    return values.transpose(1, 2).flatten(0, 1)
