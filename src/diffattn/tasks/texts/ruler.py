"""RULER's eight needle variants and its variable tracking (Hsieh et al., arXiv:2404.06654), in words of our own."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from diffattn.tasks.examples import TextExample
from diffattn.tasks.names import Fresh
from diffattn.tasks.texts.needles import listed
from diffattn.tasks.texts.prompts import TextRequest, shares, weave

__all__ = ["RULER_NEEDLES", "RulerNeedles", "ruler_texts", "tracking_texts"]


@dataclass(frozen=True, kw_only=True)
class RulerNeedles:
    """One of the variants.

    Attributes:
        haystack: the kind it is defined with.
        keys: "words" or "uuids".
        values: "numbers" or "uuids".
        placed: keys in the haystack.
        asked: keys asked for.
        each: values of each key, all of them asked for.
    """

    haystack: str = "text"
    keys: str = "words"
    values: str = "numbers"
    placed: int = 1
    asked: int = 1
    each: int = 1


RULER_NEEDLES = {
    "niah_single_1": RulerNeedles(haystack="filler"),
    "niah_single_2": RulerNeedles(),
    "niah_single_3": RulerNeedles(values="uuids"),
    "niah_multikey_1": RulerNeedles(placed=4),
    "niah_multikey_2": RulerNeedles(haystack="distractors"),
    "niah_multikey_3": RulerNeedles(haystack="distractors", keys="uuids", values="uuids"),
    "niah_multivalue": RulerNeedles(each=4),
    "niah_multiquery": RulerNeedles(placed=4, asked=4),
}
"""As the benchmark's configuration has them."""


def ruler_texts(request: TextRequest, name: str) -> list[TextExample]:
    """Prompts of one variant; the haystack is the request's, which may be of another kind than the variant's own.

    Raises:
        ValueError: there is no such variant.
        UserError: the length is too small for the needles.
    """
    if name not in RULER_NEEDLES:
        raise ValueError(f"name must be one of {', '.join(RULER_NEEDLES)}, got {name!r}")
    return [_needles(request, rng, depth, RULER_NEEDLES[name]) for rng, depth in request.generators(name)]


def _needles(request: TextRequest, rng: random.Random, depth: float, kind: RulerNeedles) -> TextExample:
    fresh = Fresh(rng)
    key = fresh.word if kind.keys == "words" else fresh.uuid
    value = fresh.number if kind.values == "numbers" else fresh.uuid
    keys = [key() for _ in range(kind.placed)]
    pairs = [(name, value()) for name in keys for _ in range(kind.each)]
    asked = range(kind.asked * kind.each)

    def sentence(name: str, worth: str) -> str:
        return f"One of the special magic {kind.values} for {name} is: {worth}."

    names = listed(keys[: kind.asked])
    plural = len(asked) > 1
    what = kind.values if plural else kind.values[:-1]
    ends = (
        f"Some special magic {kind.values} are hidden within the text below. Memorize them: you will be asked about "
        "them after it.\n\n",
        f"\n\nWhat {'are all the' if plural else 'is the'} special magic {what} for {names} mentioned in the text? "
        f"The special magic {what} for {names} mentioned in the text {'are' if plural else 'is'}",
    )
    pieces = request.haystack.units(rng, lambda: sentence(key(), value()))
    draft = weave(request, ends, pieces, [sentence(*pair) for pair in pairs], shares(rng, depth, len(pairs)))
    return request.example(draft.only(asked), [pairs[i][1] for i in asked])


def tracking_texts(request: TextRequest, *, chains: int = 1, hops: int = 4) -> list[TextExample]:
    """Prompts with chains of assignments (`VAR A = 12345`, `VAR B = VAR A`), always in this order.

    Asked for are all variables that hold the first chain's value; other chains' variables are false answers. Its first
    assignment stands at the request's depth, those that follow anywhere behind it.

    Raises:
        ValueError: chains is not positive, or hops is negative.
        UserError: the length is too small for the assignments.
    """
    if chains < 1 or hops < 0:
        raise ValueError(f"chains must be positive and hops not negative, got {chains} and {hops}")
    return [_tracking(request, rng, depth, chains, hops) for rng, depth in request.generators("tracking")]


def _tracking(request: TextRequest, rng: random.Random, depth: float, chains: int, hops: int) -> TextExample:
    fresh = Fresh(rng)

    def variable() -> str:
        return fresh.code("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 5)

    values = [fresh.number(5) for _ in range(chains)]
    names = [[variable() for _ in range(hops + 1)] for _ in range(chains)]
    facts = [fact for value, chain in zip(values, names, strict=True) for fact in _chain(value, chain)]
    depths = [at for chain in range(chains) for at in _ascending(rng, depth if not chain else rng.random(), hops)]
    ends = (
        "Memorize and track the assignments of variables hidden in the text below.\n\n",
        f"\n\nQuestion: Which variables are assigned the value {values[0]} in the text above, directly or through "
        f"other variables?\nAnswer: The {hops + 1} variables that are assigned the value {values[0]} are:",
    )
    pieces = request.haystack.units(rng, _assignments(fresh, variable))
    draft = weave(request, ends, pieces, facts, depths)
    others = [name for chain in names[1:] for name in chain]
    return request.example(draft.only(range(hops + 1)), names[0], others)


def _chain(value: str, names: list[str]) -> list[str]:
    copies = [f"VAR {name} = VAR {before}." for before, name in pairwise(names)]
    return [f"VAR {names[0]} = {value}.", *copies]


def _ascending(rng: random.Random, first: float, more: int) -> list[float]:
    return [first, *sorted(first + (1 - first) * rng.random() for _ in range(more))]


def _assignments(fresh: Fresh, variable: Callable[[], str]) -> Callable[[], str]:
    return lambda: _chain(fresh.number(5), [variable()])[0]
