"""What a model should not make up: an answer that the text does not hold, the id of a source that does not say so."""

from __future__ import annotations

import random
from collections.abc import Callable

from diffattn.tasks.examples import TextExample
from diffattn.tasks.names import CITIES, Fresh
from diffattn.tasks.texts.needles import city_distractor, city_fact
from diffattn.tasks.texts.prompts import TextRequest, shares, weave

__all__ = ["NONE", "absent_texts", "citation_texts"]

NONE = "NONE"
"""The right answer where the text holds none."""

_CODE = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


def absent_texts(request: TextRequest, *, placed: int = 4, absent: float = 0.5) -> list[TextExample]:
    """Magic numbers of cities, asked for one; for a share of the examples, of a city that the text does not name.

    There the answer is `NONE`, as the question says, and the numbers of the cities that are named are false answers.
    The absent ones are spread evenly among the examples: with one half, every second.

    Raises:
        ValueError: placed or absent is out of its range.
        UserError: the length is too small for the needles.
    """
    if not 1 <= placed < len(CITIES):
        raise ValueError(f"placed must be within 1 to {len(CITIES) - 1}, got {placed}")
    if not 0 <= absent <= 1:
        raise ValueError(f"absent must be a share within 0 to 1, got {absent}")
    missing = [int((i + 1) * absent + 1e-9) > int(i * absent + 1e-9) for i in range(request.examples)]
    drawn = zip(request.generators("absent"), missing, strict=True)
    return [_absent(request, rng, depth, placed, gone) for (rng, depth), gone in drawn]


def _absent(request: TextRequest, rng: random.Random, depth: float, placed: int, gone: bool) -> TextExample:
    fresh = Fresh(rng)
    *cities, unnamed = rng.sample(CITIES, placed + 1)
    numbers = [fresh.number() for _ in cities]
    asked = unnamed if gone else cities[0]
    ends = (
        "The text below hides magic numbers of cities. Keep them in mind: a question about them follows it.\n\n",
        f"\n\nQuestion: What is the magic number of {asked}? If the text does not give it, answer {NONE}.\nAnswer:",
    )
    pieces = request.haystack.units(rng, city_distractor(fresh))
    draft = weave(request, ends, pieces, list(map(city_fact, cities, numbers)), shares(rng, depth, placed))
    if gone:
        return request.example(draft.only([]), [NONE], numbers)
    return request.example(draft.only([0]), numbers[:1])


def citation_texts(request: TextRequest, *, duplicates: int = 3) -> list[TextExample]:
    """Sources with ids that differ in the year alone: asked for are one year's number and the id of its source.

    The answers are both, found in the same sentence; the other years' numbers and ids are false answers.

    Raises:
        ValueError: duplicates is out of its range.
        UserError: the length is too small for the sources.
    """
    if not 1 <= duplicates < 60:
        raise ValueError(f"duplicates must be within 1 to 59, got {duplicates}")
    return [_citation(request, rng, depth, duplicates) for rng, depth in request.generators("citation")]


def _citation(request: TextRequest, rng: random.Random, depth: float, duplicates: int) -> TextExample:
    fresh = Fresh(rng)
    city = rng.choice(CITIES)
    years = rng.sample(range(1960, 2020), duplicates + 1)
    counts = [fresh.number(5) for _ in years]
    ids = [fresh.code(_CODE, 6) for _ in years]
    ends = (
        "The text below holds reports of counts. Each begins with the id of its source, in brackets.\n\n",
        f"\n\nQuestion: How many storks were counted in {city} in {years[0]}, and which source says so? Give the "
        "number, then the source's id in brackets.\nAnswer:",
    )
    pieces = request.haystack.units(rng, _other_report(rng, fresh))
    needles = [_report(ids[i], city, years[i], counts[i]) for i in range(len(years))]
    draft = weave(request, ends, pieces, needles, shares(rng, depth, len(needles)))
    return request.example(draft.only([0, 0]), [counts[0], ids[0]], counts[1:] + ids[1:])


def _report(code: str, city: str, year: int, count: str) -> str:
    return f"[{code}] In {year}, {count} storks were counted in {city}."


def _other_report(rng: random.Random, fresh: Fresh) -> Callable[[], str]:
    return lambda: _report(fresh.code(_CODE, 6), fresh.name(), rng.randrange(1960, 2020), fresh.number(5))
