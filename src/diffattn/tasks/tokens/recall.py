"""Multi-query associative recall (Arora et al., arXiv:2312.04927): keys and values as tokens of their own.

    position   0   1   2   3   4  5   6  7   8
    token      k3  v1  k7  v4  .  k7  .  k3  .
    answer                        v4     v1

Pairs come first; later each of some keys stands once more, alone, and its value is the answer there. How far behind the
pairs follows the paper's power law: small `power` puts most queries early.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffattn.tasks.draws import Seed, distinct, pick
from diffattn.tasks.examples import TokenExamples

__all__ = ["RecallConfig", "make_recall", "recall_vocabulary_size"]


@dataclass(frozen=True, kw_only=True)
class RecallConfig:
    """What the sequences hold; tokens are keys, then values, then filler.

    Attributes:
        length: tokens.
        pairs: key-value pairs at the start, all keys different.
        questions: of those keys, how many are asked for, each once.
        keys: kinds of keys.
        values: kinds of values.
        filler_tokens: kinds of filler.
        power: a question stands g tokens after the first place it could with a probability proportional to
            (g + 1) ** (power - 1); 1 is uniform.

    Raises:
        ValueError: a number is out of its range, or the sequence too short.
    """

    length: int
    pairs: int = 8
    questions: int = 8
    keys: int = 64
    values: int = 64
    filler_tokens: int = 64
    power: float = 0.01

    def __post_init__(self) -> None:
        if not 1 <= self.questions <= self.pairs <= self.keys:
            raise ValueError(
                f"1 <= questions <= pairs <= keys must hold, got {self.questions}, {self.pairs} and {self.keys}"
            )
        if min(self.values, self.filler_tokens) < 1:
            raise ValueError(f"values and filler_tokens must be positive, got {self.values} and {self.filler_tokens}")
        if self.power <= 0:
            raise ValueError(f"power must be positive, got {self.power}")
        if self.length < 2 * self.pairs + self.questions:
            raise ValueError(f"length must be at least {2 * self.pairs + self.questions}, got {self.length}")


def recall_vocabulary_size(config: RecallConfig) -> int:
    """Tokens of all kinds."""
    return config.keys + config.values + config.filler_tokens


def make_recall(config: RecallConfig, count: int, seed: Seed) -> TokenExamples:
    """`count` sequences; a source is the position of the value, its depth that within the pairs."""
    rng = np.random.default_rng(seed)
    before = 2 * config.pairs
    keys = distinct(rng, count, config.pairs, config.keys)
    values = config.keys + rng.integers(config.values, size=keys.shape)
    tokens = config.keys + config.values + rng.integers(config.filler_tokens, size=(count, config.length))
    tokens[:, 0:before:2], tokens[:, 1:before:2] = keys, values
    asked = distinct(rng, count, config.questions, config.pairs)
    queries = before + _gaps(rng, config, count)
    np.put_along_axis(tokens, queries, pick(keys, asked), axis=1)
    sources = 2 * asked + 1
    return TokenExamples(
        tokens=tokens,
        queries=queries,
        answers=pick(values, asked),
        sources=sources,
        false_answers=np.empty((*asked.shape, 0), np.int64),
        depths=sources / (before - 1),
    )


def _gaps(rng: np.random.Generator, config: RecallConfig, count: int) -> np.ndarray:
    """Int64 `[count, questions]`, different in a row and ascending: a draw without replacement, by Gumbel noise."""
    room = config.length - 2 * config.pairs
    scores = (config.power - 1) * np.log(np.arange(1, room + 1)) + rng.gumbel(size=(count, room))
    return np.sort(np.argpartition(-scores, config.questions - 1, axis=1)[:, : config.questions], axis=1)
