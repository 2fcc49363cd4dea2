"""Generated retrieval tasks, seeded: as tokens for small models trained on them, as text for any model."""

from diffattn.tasks.examples import TextExample, TokenExamples

__all__ = ["TextExample", "TokenExamples"]
