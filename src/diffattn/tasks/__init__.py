"""Generated retrieval tasks, seeded: as tokens for small models trained on them, as text for any model."""

from diffattn.tasks.examples import TextExample, TokenExamples
from diffattn.tasks.facts import FactsConfig, FactsLayout, layout, make_facts, vocabulary_size

__all__ = ["FactsConfig", "FactsLayout", "TextExample", "TokenExamples", "layout", "make_facts", "vocabulary_size"]
