"""Questions whose answers stand at known positions, one or several tokens long, in tokens or in text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from diffattn.errors import UserError
from diffattn.tasks import TextExample

__all__ = ["Questions", "SpanQuestions", "as_spans", "text_questions"]


class Questions(Protocol):
    """N sequences of T tokens with Q questions each; `TokenExamples` of `diffattn.tasks` are such.

    Attributes:
        tokens: int `[N, T]`.
        queries: int `[N, Q]`, the positions at which the questions are asked.
        sources: int `[N, Q]`, the answers' positions; or `[N, Q, 2]`, their first positions and those after their last.
            -1 where there is none.
    """

    @property
    def tokens(self) -> np.ndarray: ...
    @property
    def queries(self) -> np.ndarray: ...
    @property
    def sources(self) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True)
class SpanQuestions:
    """`Questions` as they are."""

    tokens: np.ndarray
    queries: np.ndarray
    sources: np.ndarray


def as_spans(questions: Questions) -> tuple[Tensor, Tensor]:
    """Queries int64 `[N, Q]` and sources int64 `[N, Q, 2]`, first position and the one after the last; equal for none.

    Raises:
        ValueError: shapes that do not fit, or positions that are not in their sequence.
    """
    tokens, queries, sources = (np.asarray(x) for x in (questions.tokens, questions.queries, questions.sources))
    if queries.ndim != 2 or len(queries) != len(tokens):
        raise ValueError(f"queries: expected shape [{len(tokens)}, Q], got {list(queries.shape)}")
    if sources.shape not in (queries.shape, (*queries.shape, 2)):
        raise ValueError(f"sources: expected shape {list(queries.shape)} or with a last 2, got {list(sources.shape)}")
    _check_positions("queries", queries, tokens.shape[1])
    if sources.ndim == 2:
        sources = np.stack([sources, np.where(sources < 0, sources, sources + 1)], -1)
    sources = np.where((sources < 0).any(-1, keepdims=True), 0, sources)
    _check_positions("sources", sources, tokens.shape[1] + 1)
    return torch.from_numpy(queries.astype(np.int64)), torch.from_numpy(sources.astype(np.int64))


def _check_positions(name: str, positions: np.ndarray, length: int) -> None:
    if positions.size and not (positions.min() >= 0 and positions.max() < length):
        given = f"{positions.min()} to {positions.max()}"
        raise ValueError(f"{name}: expected positions from 0 to {length - 1}, got {given}")


def text_questions(examples: Sequence[TextExample], tokenizer: PreTrainedTokenizerBase) -> list[SpanQuestions]:
    """Each prompt in tokens; each of its facts is a question asked at the prompt's last token.

    A token belongs to a fact where any of its characters does. A prompt without a fact gives one question without a
    source.

    Args:
        examples: their spans are in characters of the prompt.
        tokenizer: the model's own, one that knows which characters a token stands for ("fast").

    Raises:
        UserError: the tokenizer does not know that.
    """
    if not tokenizer.is_fast:
        raise UserError(
            f"{type(tokenizer).__name__} does not tell which characters a token stands for: "
            "give the model's tokenizer as a tokenizer.json"
        )
    return [_text_question(example, tokenizer) for example in examples]


def _text_question(example: TextExample, tokenizer: PreTrainedTokenizerBase) -> SpanQuestions:
    encoded = tokenizer(example.prompt, return_offsets_mapping=True)
    offsets = np.array(encoded["offset_mapping"]).reshape(-1, 2)
    spans = [_token_span(offsets, *span) for span in example.spans] or [(-1, -1)]
    return SpanQuestions(
        tokens=np.array([encoded["input_ids"]], dtype=np.int64),
        queries=np.full((1, len(spans)), len(offsets) - 1),
        sources=np.array([spans]),
    )


def _token_span(offsets: np.ndarray, start: int, end: int) -> tuple[int, int]:
    inside = np.flatnonzero((offsets[:, 0] < end) & (offsets[:, 1] > start))
    if not inside.size:
        raise ValueError(f"spans: expected characters that some token stands for, got {start} to {end}")
    return int(inside[0]), int(inside[-1]) + 1
