"""Magic numbers of cities hidden in a text, as in the Differential Transformer paper (arXiv:2410.05258, 3.4)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from diffattn.tasks.examples import TextExample
from diffattn.tasks.names import CITIES, Fresh
from diffattn.tasks.texts.prompts import TextRequest, shares, weave

__all__ = ["city_distractor", "city_fact", "city_texts", "listed"]

_HEAD = "The text below hides magic numbers of cities. Keep them in mind: a question about them follows it.\n\n"


def city_fact(city: str, number: str) -> str:
    """The sentence that is hidden."""
    return f"The magic number of {city} is {number}."


def city_distractor(fresh: Fresh) -> Callable[[], str]:
    """The same sentence for invented cities."""
    return lambda: city_fact(fresh.name(), fresh.number())


def listed(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def city_texts(request: TextRequest, *, placed: int = 1, asked: int = 1) -> list[TextExample]:
    """Prompts with `placed` numbers, each of another city, of which `asked` are asked for.

    One of those asked for stands at the request's depth, all others anywhere. The paper's settings (N, R) are (1, 1),
    (2, 2), (4, 2) and (6, 2).

    Raises:
        ValueError: it is not 1 <= asked <= placed <= the number of `CITIES`.
        UserError: the length is too small for the needles.
    """
    if not 1 <= asked <= placed <= len(CITIES):
        raise ValueError(f"1 <= asked <= placed <= {len(CITIES)} must hold, got {asked} and {placed}")
    return [_cities(request, rng, depth, placed, asked) for rng, depth in request.generators("cities")]


def _cities(request: TextRequest, rng: random.Random, depth: float, placed: int, asked: int) -> TextExample:
    fresh = Fresh(rng)
    cities = rng.sample(CITIES, placed)
    numbers = [fresh.number() for _ in cities]
    depths = shares(rng, depth, placed)
    order = rng.sample(range(asked), asked)
    needles = list(map(city_fact, cities, numbers))
    pieces = request.haystack.units(rng, city_distractor(fresh))
    ends = (_HEAD, _question([cities[i] for i in order]))
    draft = weave(request, ends, pieces, needles, depths)
    return request.example(draft.only(order), [numbers[i] for i in order])


def _question(cities: list[str]) -> str:
    number, verb = ("number", "is") if len(cities) == 1 else ("numbers", "are")
    names = listed(cities)
    return f"\n\nQuestion: What {verb} the magic {number} of {names}?\nAnswer: The magic {number} of {names} {verb}"
