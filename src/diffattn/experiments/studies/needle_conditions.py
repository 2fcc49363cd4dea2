"""The tasks of the needle study: what is hidden among what, and how positions are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["CONDITIONS", "Condition"]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A task and how positions are known.

    Attributes:
        name, title: short, and as a reader sees it.
        facts: fields of `FactsConfig`, but for the length.
        rotary: rotary positions; else none.
        variants: those that it tells something of; None for all.
        lengths: trained on, rising; None for the preset's.
        steps: of a training, as a multiple of the preset's.
        noise: of the embeddings, each normalised to an RMS of 1, in training and test.
        tuned_as: the condition whose learning rates it takes; None for its own.
    """

    name: str
    title: str
    facts: Mapping[str, Any]
    rotary: bool
    variants: tuple[str, ...] | None = None
    lengths: tuple[int, ...] | None = None
    steps: float = 1.0
    noise: float = 0.0
    tuned_as: str | None = None

    def of(self, variants: tuple[str, ...]) -> tuple[str, ...]:
        """Which of the variants are trained on it."""
        return tuple(name for name in variants if self.variants is None or name in self.variants)


_QUESTIONS = 8
_PLAIN = {"haystack": "filler", "questions": _QUESTIONS}
_THREE = ("softmax", "v1", "v2")

#: All but the last ask for facts that are there.
CONDITIONS = {
    condition.name: condition
    for condition in (
        Condition(name="plain", title="filler, no positions", facts=_PLAIN, rotary=False),
        Condition(
            name="floor",
            title="distractors, no positions, noisy embeddings",
            facts={"haystack": "distractors", "questions": _QUESTIONS},
            rotary=False,
            noise=0.4,
        ),
        Condition(
            name="rope",
            title="filler, rotary positions",
            facts=_PLAIN,
            rotary=True,
            variants=_THREE,
            tuned_as="plain",
        ),
        Condition(
            name="rope-long",
            title="filler, rotary positions, trained at all lengths",
            facts=_PLAIN,
            rotary=True,
            variants=_THREE,
            lengths=(32, 64, 128, 256, 512, 1024, 2048),
            steps=1.6,
            tuned_as="plain",
        ),
        Condition(
            name="absent",
            title="absent keys and near-duplicates, no positions",
            facts={
                "haystack": "filler",
                "absent": 0.25,
                "near_duplicates": 1,
                "facts": 6,
                "questions": _QUESTIONS,
            },
            rotary=False,
            variants=_THREE,
            steps=1.6,
            tuned_as="plain",
        ),
    )
}
