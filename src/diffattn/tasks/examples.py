"""What every task gives: tokens, or prompts in text, with where the answer stands and what would be false."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["TextExample", "TokenExamples"]


@dataclass(frozen=True, kw_only=True)
class TokenExamples:
    """N sequences of T tokens with Q questions each; a question is one token, and its answer the token to predict next.

    Attributes:
        tokens: int64 `[N, T]`.
        queries: int64 `[N, Q]`, where each question stands: the prediction made there is the answer.
        answers: int64 `[N, Q]`, the right token.
        sources: int64 `[N, Q]`, where the fact stands that holds the answer; -1 where there is none, and the right
            token is the one that says so.
        false_answers: int64 `[N, Q, K]`, tokens whose prediction is a false citation (near-duplicates' answers); -1
            fills.
        depths: float64 `[N, Q]`, of the source in the haystack, 0 (start) to 1 (end); NaN where there is none.
    """

    tokens: np.ndarray
    queries: np.ndarray
    answers: np.ndarray
    sources: np.ndarray
    false_answers: np.ndarray
    depths: np.ndarray

    @property
    def answerable(self) -> np.ndarray:
        """Bool `[N, Q]`: the sequence holds the answer."""
        return self.sources >= 0


@dataclass(frozen=True, kw_only=True)
class TextExample:
    """One prompt for a model that goes on with text.

    Attributes:
        prompt: all of it, the question at its end.
        answers: what the continuation has to hold, each of them.
        spans: where in the prompt the fact of each answer stands, `(start, end)` in characters; empty if none.
        false_answers: what a continuation must not hold: a near-duplicate's answer, the id of a wrong source.
        depth: of the (first) fact in the haystack, 0 to 1; None where there is none, or no single one.
        length: tokens of the prompt, as the tokenizer counts them.
        answerable: False where the prompt does not hold the answer, and the right one is to say so.
        max_new_tokens: enough for the answers.
    """

    prompt: str
    answers: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    false_answers: tuple[str, ...] = ()
    depth: float | None = None
    length: int
    answerable: bool = True
    max_new_tokens: int
