"""Records to look up: key-value retrieval from JSON (Liu et al., arXiv:2307.03172), and many queries of one list."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from diffattn.tasks.examples import TextExample
from diffattn.tasks.names import Fresh
from diffattn.tasks.texts.prompts import TextRequest, shares, weave

__all__ = ["key_value_texts", "recall_texts"]

_JSON_GAP = ",\n "


def key_value_texts(request: TextRequest) -> list[TextExample]:
    """A JSON object of random UUIDs, as many as fit; the key asked for stands at the request's depth.

    With n pairs it is the pair number depth * (n - 1), from 0, or the nearest to it.

    Raises:
        UserError: the length is too small for one pair.
    """
    return [_key_value(request, rng, depth) for rng, depth in request.generators("key values")]


def _key_value(request: TextRequest, rng: random.Random, depth: float) -> TextExample:
    fresh = Fresh(rng)
    key, value = fresh.uuid(), fresh.uuid()
    ends = (
        "Extract the value of the given key from the JSON object below.\n\nJSON data:\n{",
        f'}}\n\nKey: "{key}"\nCorresponding value:',
    )

    def others() -> Iterator[str]:
        while True:
            yield _pair(fresh.uuid(), fresh.uuid()) + _JSON_GAP

    draft = weave(request, ends, others(), [_pair(key, value)], [depth], _JSON_GAP)
    return request.example(draft, [value])


def _pair(key: str, value: str) -> str:
    return f"{json.dumps(key)}: {json.dumps(value)}"


def recall_texts(request: TextRequest, *, asked: int = 4) -> list[TextExample]:
    """Lines `word: number`, as many as fit, of which `asked` are asked for at once.

    Multi-query associative recall (Arora et al., arXiv:2312.04927) for models that read text. One of the lines asked
    for stands at the request's depth, the others anywhere.

    Raises:
        ValueError: asked is not positive.
        UserError: the length is too small for the lines asked for.
    """
    if asked < 1:
        raise ValueError(f"asked must be at least 1, got {asked}")
    return [_recall(request, rng, depth, asked) for rng, depth in request.generators("recall")]


def _recall(request: TextRequest, rng: random.Random, depth: float, asked: int) -> TextExample:
    fresh = Fresh(rng)

    def pair() -> tuple[str, str]:
        return fresh.word(), fresh.number(4)

    def others() -> Iterator[str]:
        while True:
            yield ": ".join(pair()) + "\n"

    pairs = [pair() for _ in range(asked)]
    order = rng.sample(range(asked), asked)
    words = ", ".join(pairs[i][0] for i in order)
    ends = (
        "Each line gives a word and its number.\n\n",
        f"\n\nQuestion: What are the numbers of these words, in this order: {words}?\nAnswer:",
    )
    draft = weave(request, ends, others(), list(map(": ".join, pairs)), shares(rng, depth, asked), "\n")
    return request.example(draft.only(order), [pairs[i][1] for i in order])
