"""Generated retrieval tasks, seeded: as tokens for small models trained on them, as text for any model."""

from diffattn.tasks.checks import NumberTokens, check_fits, check_numbers, number_tokens
from diffattn.tasks.examples import TextExample, TokenExamples
from diffattn.tasks.facts import FactsConfig, FactsLayout, layout, make_facts, vocabulary_size
from diffattn.tasks.haystacks import Haystack
from diffattn.tasks.registry import TASKS, make_texts, make_tokens
from diffattn.tasks.task import Task, TokenForm
from diffattn.tasks.texts.prompts import TextRequest

__all__ = [
    "TASKS",
    "FactsConfig",
    "FactsLayout",
    "Haystack",
    "NumberTokens",
    "Task",
    "TextExample",
    "TextRequest",
    "TokenExamples",
    "TokenForm",
    "check_fits",
    "check_numbers",
    "layout",
    "make_facts",
    "make_texts",
    "make_tokens",
    "number_tokens",
    "vocabulary_size",
]
