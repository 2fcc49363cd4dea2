"""Many-shot classification in context: inputs and labels one after another, then inputs alone.

    position   0   1  2   3  ...  | 2 * shots
    token      b3  X  a9  Y  ...  | b5
    answer                        | X

An input's class (`a`, `b`) is fixed, and must be learned; which label a class has is drawn anew for every sequence, and
can only be read from the examples. The inputs asked about are not among them. The same seed with another `permutation`
gives the same examples and questions, the examples in another order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffattn.tasks.draws import Seed, distinct, generator, pick
from diffattn.tasks.examples import TokenExamples
from diffattn.tasks.orders import arrange, check_order

__all__ = ["ShotsConfig", "make_shots", "shots_vocabulary_size"]


@dataclass(frozen=True, kw_only=True)
class ShotsConfig:
    """What the sequences hold; tokens are inputs, `class * members + member`, then labels.

    Attributes:
        classes: classes, and labels.
        members: inputs of each class.
        each: examples of each class in a sequence, all different.
        questions: inputs asked about, at the end.
        order: of the examples: "random", "alternating" or "blocked" (see `diffattn.tasks.orders.arrange`).

    Raises:
        ValueError: a number is out of its range, or there is no such order.
    """

    classes: int = 4
    members: int = 32
    each: int = 8
    questions: int = 1
    order: str = "random"

    def __post_init__(self) -> None:
        check_order(self.order)
        if min(self.classes, self.each, self.questions) < 1:
            raise ValueError(
                f"classes, each and questions must be positive, got {self.classes}, {self.each}, {self.questions}"
            )
        if self.members <= self.each:
            raise ValueError(f"members must exceed each, {self.each}, so that some are not shown, got {self.members}")


def shots_vocabulary_size(config: ShotsConfig) -> int:
    """Inputs and labels."""
    return config.classes * config.members + config.classes


def make_shots(config: ShotsConfig, count: int, seed: Seed, permutation: int = 0) -> TokenExamples:
    """`count` sequences of `2 * classes * each + questions` tokens; a source is the first place of the right label."""
    rng = generator(seed, 0)
    classes, each, shots = config.classes, config.each, config.classes * config.each
    names = distinct(rng, count * classes, config.members, config.members).reshape(count, classes, -1)
    inputs = np.arange(classes)[:, None] * config.members + names
    labels = classes * config.members + distinct(rng, count, classes, classes)
    asked = rng.integers(classes, size=(count, config.questions))
    unseen = rng.integers(each, config.members, size=asked.shape)

    order = arrange(generator(seed, 1, permutation), count, classes, each, config.order)
    tokens = np.empty((count, 2 * shots + config.questions), np.int64)
    tokens[:, 0 : 2 * shots : 2] = pick(inputs[:, :, :each].reshape(count, -1), order)
    tokens[:, 1 : 2 * shots : 2] = pick(labels, order // each)
    tokens[:, 2 * shots :] = inputs[np.arange(count)[:, None], asked, unseen]
    answers = pick(labels, asked)
    sources = (tokens[:, None, : 2 * shots] == answers[..., None]).argmax(-1)
    return TokenExamples(
        tokens=tokens,
        queries=np.broadcast_to(np.arange(config.questions) + 2 * shots, asked.shape).copy(),
        answers=answers,
        sources=sources,
        false_answers=np.empty((*asked.shape, 0), np.int64),
        depths=sources / (2 * shots - 1),
    )
