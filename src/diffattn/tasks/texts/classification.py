"""Many-shot classification in context: questions and their types, the same examples in several orders."""

from __future__ import annotations

import random

import numpy as np

from diffattn.tasks.examples import TextExample
from diffattn.tasks.names import Fresh
from diffattn.tasks.orders import arrange, check_order
from diffattn.tasks.texts.prompts import Draft, TextRequest, longest

__all__ = ["TYPES", "classification_texts"]

TYPES = {
    "person": ("Who founded {}?", "Who wrote the history of {}?", "Which painter was born in {}?", "Who rules {}?"),
    "place": ("Where does {} lie?", "In which country is {}?", "Which town is nearest to {}?", "Where is {} made?"),
    "number": ("How many people live in {}?", "How tall is {}?", "What does {} cost?", "How far away is {}?"),
    "date": ("When was {} built?", "In which year did {} end?", "On which day is {} held?", "When did {} begin?"),
    "reason": ("Why is {} famous?", "What made {} fail?", "Why was {} closed?", "For what reason is {} visited?"),
    "meaning": ("What does {} mean?", "What is {}?", "How is {} defined?", "What is meant by {}?"),
}
"""Labels, each with the forms of its questions about an invented name; a question's form tells its type."""

_HEAD = "Each question below has one of six types.\n\n"


def classification_texts(request: TextRequest, *, order: str = "random", permutations: int = 1) -> list[TextExample]:
    """As many examples as fit, equally many of each type, then one question without its type.

    Each of the request's examples gives `permutations` prompts in a row: the same examples and question, the examples
    in another order ("random", "alternating" or "blocked", see `diffattn.tasks.orders.arrange`). The type asked for
    goes through all of them in turn. The span is the first place of the right label; there is no depth.

    Raises:
        ValueError: there is no such order, or permutations is not positive.
        UserError: the length is too small for one example of each type.
    """
    check_order(order)
    if permutations < 1:
        raise ValueError(f"permutations must be at least 1, got {permutations}")
    drawn = enumerate(request.generators("classification"))
    return [
        example
        for index, (rng, _) in drawn
        for example in _permuted(request, rng, list(TYPES)[index % len(TYPES)], order, permutations)
    ]


def _permuted(request: TextRequest, rng: random.Random, asked: str, order: str, permutations: int) -> list[TextExample]:
    fresh = Fresh(rng)
    tail = _shot(_question(asked, rng, fresh), "").rstrip()
    known: dict[str, list[str]] = {label: [] for label in TYPES}
    seed = rng.getrandbits(64)

    def prompts(each: int) -> list[str]:
        for label, shots in known.items():
            shots.extend(_shot(_question(label, rng, fresh), label) for _ in range(each - len(shots)))
        shots = [shot for label in TYPES for shot in known[label][:each]]
        orders = arrange(np.random.default_rng(seed), permutations, len(TYPES), each, order)
        return [_HEAD + "".join(shots[i] for i in row) + tail for row in orders]

    each = longest(lambda n: max(map(request.count, prompts(n))), request.length, least=1)
    return [request.example(Draft(prompt, (_first(prompt, asked),)), [asked]) for prompt in prompts(each)]


def _first(prompt: str, label: str) -> tuple[int, int]:
    """The span of its first example's label."""
    start = prompt.index(f"\nType: {label}\n") + len("\nType: ")
    return start, start + len(label)


def _question(label: str, rng: random.Random, fresh: Fresh) -> str:
    return rng.choice(TYPES[label]).format(fresh.name())


def _shot(question: str, label: str) -> str:
    return f"Question: {question}\nType: {label}\n\n"
