"""Facts grouped in documents, the document that holds the answer in a chosen place among the others.

A document of 6 tokens with two facts; a title says where it begins:

    position   0    1  2   3   4  5  | 6    ...
    token      T17  .  a7  .   .  c2 | T3   ...
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from diffattn.tasks.draws import Seed, distinct
from diffattn.tasks.examples import TokenExamples
from diffattn.tasks.facts import FactsConfig, ask, vocabulary_size

__all__ = ["DocumentsConfig", "documents_vocabulary_size", "make_documents"]


@dataclass(frozen=True, kw_only=True)
class DocumentsConfig:
    """What the sequences hold.

    Attributes:
        documents: how many there are.
        document_tokens: tokens of each, its title among them.
        facts_each: facts in each document, all keys of a sequence different.
        gold: which document holds every answer, 0 for the first; None: any.
        titles: kinds of titles; a sequence's documents have different ones.
        facts: keys, values, questions and kinds of filler; its length, facts and depth are set from the above.

    Raises:
        ValueError: a number is out of its range.
    """

    documents: int = 8
    document_tokens: int = 16
    facts_each: int = 2
    gold: int | None = None
    titles: int = 32
    facts: FactsConfig = field(default_factory=lambda: FactsConfig(length=16, questions=1))

    def __post_init__(self) -> None:
        if self.gold is not None and not 0 <= self.gold < self.documents:
            raise ValueError(f"gold must be within 0 to {self.documents - 1}, got {self.gold}")
        if not 0 < self.documents <= self.titles:
            raise ValueError(f"documents must be within 1 to {self.titles}, the titles, got {self.documents}")
        if self.facts.near_duplicates:
            raise ValueError(f"facts.near_duplicates must be 0, got {self.facts.near_duplicates}")
        if self.document_tokens <= self.facts_each:
            raise ValueError(
                f"document_tokens must exceed facts_each, {self.facts_each}, for the title, got {self.document_tokens}"
            )
        _ = self.whole

    @property
    def whole(self) -> FactsConfig:
        """The sequence as facts in a haystack."""
        length, facts = self.documents * self.document_tokens, self.documents * self.facts_each
        return replace(self.facts, length=length, facts=facts, depth=None)


def documents_vocabulary_size(config: DocumentsConfig) -> int:
    """The facts' vocabulary, then the titles."""
    return vocabulary_size(config.whole) + config.titles


def make_documents(config: DocumentsConfig, count: int, seed: Seed) -> TokenExamples:
    """`count` sequences of `documents * document_tokens + facts.questions` tokens."""
    rng = np.random.default_rng(seed)
    documents, size, each = config.documents, config.document_tokens, config.facts_each
    starts = np.arange(documents) * size
    within = 1 + distinct(rng, count * documents, each, size - 1).reshape(count, documents, each)
    stand = starts[:, None] + within
    if config.gold is not None:
        stand = np.roll(stand, -config.gold, axis=1)
    among = config.whole.facts if config.gold is None else each
    examples = ask(rng, config.whole, stand.reshape(count, -1), among)
    examples.tokens[:, starts] = vocabulary_size(config.whole) + distinct(rng, count, documents, config.titles)
    return examples
