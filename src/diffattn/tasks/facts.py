"""Facts of one token each in a haystack, then questions: what small models learn within minutes.

A sequence of `length` haystack tokens and Q questions, for example with keys a, b, c, values 1 to 9, two facts:

    position   0  1   2  3  4   5  ...  length-1 | length  length+1
    token      .  a7  .  .  c2  .  ...  .        | c?      a?
    answer                                       | 2       7

A fact is one compound token (`a7`), a question another (`c?`), an answer a third (`2`). Answers never stand in the
sequence, so a question that is asked twice leaks nothing. `.` is filler, or a fact of a key that is never asked. With
near-duplicates a fact names its source too, and so does the question: the other sources' values are false citations.
Noise on the embeddings is no matter of tokens: an evaluation adds it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffattn.tasks.draws import Seed, distinct, pick, places
from diffattn.tasks.examples import TokenExamples

__all__ = ["FactsConfig", "FactsLayout", "ask", "layout", "make_facts", "vocabulary_size"]

HAYSTACKS = ("filler", "distractors")


@dataclass(frozen=True, kw_only=True)
class FactsConfig:
    """What the sequences hold.

    Attributes:
        length: haystack tokens, the facts among them; the questions come after it.
        keys: keys that facts may have and questions may ask for.
        values: values that a fact may have.
        facts: facts in the haystack, each of another key, at random positions.
        questions: at the end, drawn among the facts.
        repeat: questions are drawn with replacement; False: no fact is asked for twice.
        haystack: "filler" (random filler tokens) or "distractors" (every token is a fact of a key never asked for).
        filler_tokens: kinds of filler.
        distractor_keys: keys of distractors, beside `keys`.
        depth: where the asked fact stands, 0 (start) to 1 (end): then all answerable questions of a sequence ask for
            that one fact. None: for any.
        absent: share of questions for a key that is not in the haystack, whose answer is the token NONE.
        near_duplicates: for each fact, how many further facts of its key stand in the haystack, each from another
            source and with another value.

    Raises:
        ValueError: a number is out of its range, or the haystack is too short for its facts.
    """

    length: int
    keys: int = 16
    values: int = 16
    facts: int = 8
    questions: int = 4
    repeat: bool = True
    haystack: str = "filler"
    filler_tokens: int = 64
    distractor_keys: int = 32
    depth: float | None = None
    absent: float = 0.0
    near_duplicates: int = 0

    def __post_init__(self) -> None:
        for name in ("keys", "values", "facts", "questions", "filler_tokens", "distractor_keys"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.haystack not in HAYSTACKS:
            raise ValueError(f"haystack must be one of {', '.join(HAYSTACKS)}, got {self.haystack!r}")
        if self.depth is not None and not 0 <= self.depth <= 1:
            raise ValueError(f"depth must be None or within 0 to 1, got {self.depth}")
        if not 0 <= self.absent <= 1:
            raise ValueError(f"absent must be a share within 0 to 1, got {self.absent}")
        self._check_counts()

    def _check_counts(self) -> None:
        asked = self.facts + (self.absent > 0)
        if self.keys < asked:
            raise ValueError(f"keys must be at least {asked} for {self.facts} facts (and absent ones), got {self.keys}")
        if not self.repeat and self.questions > (self.facts if self.depth is None else 1):
            raise ValueError(f"questions must not exceed the facts that may be asked for, got {self.questions}")
        if not 0 <= self.near_duplicates < self.values:
            raise ValueError(f"near_duplicates must be within 0 to values - 1, got {self.near_duplicates}")
        if self.length < self.placed:
            raise ValueError(f"length must be at least {self.placed}, the facts to be placed, got {self.length}")

    @property
    def sources(self) -> int:
        """Sources that a fact may be from."""
        return 1 + self.near_duplicates

    @property
    def placed(self) -> int:
        """Facts in the haystack, near-duplicates included and distractors not."""
        return self.facts * self.sources


@dataclass(frozen=True)
class FactsLayout:
    """Where each kind of token begins; facts begin at 0, and `size` is the vocabulary's.

    A fact is `(source * keys + key) * values + value`, a question `questions + source * keys + key`, an answer
    `answers + value`, a distractor `distractors + key * values + value`. The same for both haystacks, all lengths and
    any number of facts, so that a model trained on one can be asked about another.
    """

    questions: int
    answers: int
    none: int
    filler: int
    distractors: int
    size: int


def layout(config: FactsConfig) -> FactsLayout:
    """Where each kind of token begins."""
    questions = config.sources * config.keys * config.values
    answers = questions + config.sources * config.keys
    none = answers + config.values
    filler = none + 1
    distractors = filler + config.filler_tokens
    return FactsLayout(
        questions, answers, none, filler, distractors, distractors + config.distractor_keys * config.values
    )


def vocabulary_size(config: FactsConfig) -> int:
    """Tokens of all kinds."""
    return layout(config).size


def make_facts(config: FactsConfig, count: int, seed: Seed) -> TokenExamples:
    """`count` sequences of `config.length + config.questions` tokens; the same for the same arguments."""
    rng = np.random.default_rng(seed)
    stand = places(rng, count, config.placed, config.length, config.depth)
    return ask(rng, config, stand, config.facts if config.depth is None else 1)


def ask(rng: np.random.Generator, config: FactsConfig, stand: np.ndarray, among: int) -> TokenExamples:
    """Put facts where they are to stand, `stand` int64 `[count, config.placed]`, and ask for the first `among` of them.

    Of a fact's places, which follow one another in `stand`, the first is its own, the others its near-duplicates'.
    """
    count, sources, first = len(stand), config.sources, layout(config)
    keys = distinct(rng, count, config.keys, config.keys)
    names = distinct(rng, count * config.facts, sources, sources).reshape(count, -1)
    values = distinct(rng, count * config.facts, sources, config.values).reshape(count, -1)
    named = names * config.keys + np.repeat(keys[:, : config.facts], sources, axis=1)  # [count, placed]
    tokens = np.concatenate([_haystack(rng, config, count), np.empty((count, config.questions), np.int64)], axis=1)
    np.put_along_axis(tokens, stand, named * config.values + values, axis=1)

    slots = _asked(rng, config, count, among) * sources
    absent = rng.random(slots.shape) < config.absent
    others = slots[..., None] + np.arange(1, sources)
    wrong = first.answers + pick(values, others.reshape(count, -1)).reshape(others.shape)
    unplaced = _unplaced(rng, config, keys) if config.absent else pick(named, slots)
    tokens[:, config.length :] = first.questions + np.where(absent, unplaced, pick(named, slots))
    found = pick(stand, slots)
    return TokenExamples(
        tokens=tokens,
        queries=np.broadcast_to(np.arange(config.questions) + config.length, absent.shape).copy(),
        answers=np.where(absent, first.none, first.answers + pick(values, slots)),
        sources=np.where(absent, -1, found),
        false_answers=np.where(absent[..., None], -1, wrong),
        depths=np.where(absent, np.nan, found / max(config.length - 1, 1)),
    )


def _haystack(rng: np.random.Generator, config: FactsConfig, count: int) -> np.ndarray:
    first = layout(config)
    low, high = (first.filler, first.distractors) if config.haystack == "filler" else (first.distractors, first.size)
    return rng.integers(low, high, (count, config.length))


def _asked(rng: np.random.Generator, config: FactsConfig, count: int, among: int) -> np.ndarray:
    """Which fact each question asks for, `[count, questions]`."""
    if config.repeat:
        return rng.integers(among, size=(count, config.questions))
    return distinct(rng, count, config.questions, among)


def _unplaced(rng: np.random.Generator, config: FactsConfig, keys: np.ndarray) -> np.ndarray:
    """For each question, a key that no fact has, from any source."""
    shape = (len(keys), config.questions)
    names = rng.integers(config.sources, size=shape)
    return names * config.keys + pick(keys, rng.integers(config.facts, config.keys, size=shape))
