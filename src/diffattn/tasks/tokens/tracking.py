"""Variable tracking (RULER, arXiv:2404.06654) with one token an assignment.

    position   0    1  2    3  4    5   | 6
    token      x=5  .  y=x  .  z=y  .   | z?
    answer                              | 5

Every chain begins with a value and hands it on `hops` times, always later in the sequence. Asked for is the value of a
chain's last variable; the other chains' values are false answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffattn.tasks.draws import Seed, distinct, pick
from diffattn.tasks.examples import TokenExamples

__all__ = ["TrackingConfig", "make_tracking", "tracking_vocabulary_size"]


@dataclass(frozen=True, kw_only=True)
class TrackingConfig:
    """What the sequences hold.

    Tokens are `variable * values + value` (a value assigned), then `variable * variables + other` (a copy), then
    questions (one a variable), answers (one a value) and filler.

    Attributes:
        length: tokens before the questions.
        chains: chains of assignments, of different variables and values.
        hops: copies in a chain; 0: the value is assigned to the variable asked for.
        questions: at the end, drawn with replacement among the chains.
        variables: kinds of variables.
        values: kinds of values.
        filler_tokens: kinds of filler.

    Raises:
        ValueError: a number is out of its range, or the sequence too short.
    """

    length: int
    chains: int = 2
    hops: int = 2
    questions: int = 2
    variables: int = 16
    values: int = 16
    filler_tokens: int = 64

    def __post_init__(self) -> None:
        if self.hops < 0 or min(self.chains, self.questions, self.filler_tokens) < 1:
            raise ValueError("chains, questions and filler_tokens must be positive and hops not negative")
        if self.variables < self.assignments or self.values < self.chains:
            raise ValueError(
                f"variables must be at least {self.assignments} and values {self.chains}, "
                f"got {self.variables} and {self.values}"
            )
        if self.length < self.assignments:
            raise ValueError(f"length must be at least {self.assignments}, the assignments, got {self.length}")

    @property
    def assignments(self) -> int:
        """Assignments of all chains."""
        return self.chains * (self.hops + 1)


def _starts(config: TrackingConfig) -> tuple[int, int, int, int]:
    """Where copies, questions, answers and filler begin."""
    copies = config.variables * config.values
    questions = copies + config.variables**2
    answers = questions + config.variables
    return copies, questions, answers, answers + config.values


def tracking_vocabulary_size(config: TrackingConfig) -> int:
    """Tokens of all kinds."""
    return _starts(config)[-1] + config.filler_tokens


def make_tracking(config: TrackingConfig, count: int, seed: Seed) -> TokenExamples:
    """`count` sequences of `length + questions` tokens; a source is where the value is assigned."""
    rng = np.random.default_rng(seed)
    shape = (count, config.chains, config.hops + 1)
    copies, questions, answers, filler = _starts(config)
    names = distinct(rng, count, config.assignments, config.variables).reshape(shape)
    values = distinct(rng, count, config.chains, config.values)
    stand = np.sort(distinct(rng, count, config.assignments, config.length).reshape(shape), axis=2)
    assigned = copies + names * config.variables + np.roll(names, 1, axis=2)
    assigned[:, :, 0] = names[:, :, 0] * config.values + values
    tokens = filler + rng.integers(config.filler_tokens, size=(count, config.length + config.questions))
    np.put_along_axis(tokens, stand.reshape(count, -1), assigned.reshape(count, -1), axis=1)

    asked = rng.integers(config.chains, size=(count, config.questions))
    others = (asked[..., None] + np.arange(1, config.chains)) % config.chains
    tokens[:, config.length :] = questions + pick(names[:, :, -1], asked)
    sources = pick(stand[:, :, 0], asked)
    return TokenExamples(
        tokens=tokens,
        queries=np.broadcast_to(np.arange(config.questions) + config.length, asked.shape).copy(),
        answers=answers + pick(values, asked),
        sources=sources,
        false_answers=answers + pick(values, others.reshape(count, -1)).reshape(others.shape),
        depths=sources / max(config.length - 1, 1),
    )
