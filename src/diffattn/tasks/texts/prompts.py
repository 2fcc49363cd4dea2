"""How a prompt is made as long as it may be, with needles where they are to stand.

Needles go in all at once, into a haystack already shortened for them: no needle is cut off at any depth, and none
pushes another away from its depth.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice

from diffattn.errors import UserError
from diffattn.tasks.examples import TextExample
from diffattn.tasks.haystacks import Haystack

__all__ = ["Draft", "TextRequest", "longest", "shares", "weave"]

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class TextRequest:
    """What every text form is asked for.

    Attributes:
        count: the tokens of a text, as the model's tokenizer counts them.
        length: tokens that a prompt may have; it comes as close as its pieces allow.
        depth: where the (first) fact stands, 0 (start) to 1 (end) of the haystack's characters, to the nearest sentence
            or item; None: anywhere.
        examples: how many prompts.
        seed: the same seed gives the same facts in the same haystack at every depth; example i does not depend on how
            many there are.
        haystack: what they are hidden in, for tasks that have one.

    Raises:
        ValueError: a number is out of its range.
    """

    count: Callable[[str], int]
    length: int
    depth: float | None = None
    examples: int = 1
    seed: int = 0
    haystack: Haystack = field(default_factory=Haystack)

    def __post_init__(self) -> None:
        if self.depth is not None and not 0 <= self.depth <= 1:
            raise ValueError(f"depth must be None or within 0 to 1, got {self.depth}")
        if min(self.length, self.examples) < 1:
            raise ValueError(f"length and examples must be positive, got {self.length} and {self.examples}")

    def generators(self, name: str) -> Iterator[tuple[random.Random, float]]:
        """For each example its random numbers and the first fact's depth."""
        for index in range(self.examples):
            rng = random.Random(f"{name}/{self.seed}/{index}")
            anywhere = rng.random()
            yield rng, anywhere if self.depth is None else self.depth

    def example(self, draft: Draft, answers: Sequence[str], false_answers: Sequence[str] = ()) -> TextExample:
        """The example of a prompt; without spans it does not hold the answer."""
        depth = draft.depth if draft.depth is None or self.depth is None else self.depth
        return TextExample(
            prompt=draft.prompt,
            answers=tuple(answers),
            spans=draft.spans,
            false_answers=tuple(false_answers),
            depth=depth,
            length=self.count(draft.prompt),
            answerable=bool(draft.spans),
            max_new_tokens=2 * self.count(", ".join(answers)) + 16,
        )


@dataclass(frozen=True)
class Draft:
    """A prompt, the spans of its facts in characters, and the first one's depth."""

    prompt: str
    spans: tuple[Span, ...] = ()
    depth: float | None = None

    def only(self, facts: Sequence[int]) -> Draft:
        """With the spans of the facts asked for, in the answers' order; with none, there is no depth."""
        spans = tuple(self.spans[fact] for fact in facts)
        return replace(self, spans=spans, depth=self.depth if spans else None)


def longest(cost: Callable[[int], int], length: int, least: int = 0) -> int:
    """The largest n of at least `least` with `cost(n) <= length`, as far as costs grow with n; its cost was looked at.

    Each step guesses from the costs known, in turn by proportion and by halves.

    Raises:
        UserError: not even `least` fits; the message says what would.
    """
    low, low_cost = least, cost(least)
    if low_cost > length:
        raise UserError(f"the task takes at least {low_cost:,} tokens: give a length of that or more, not {length:,}")
    high = high_cost = 0
    while not high:
        n = min(2 * low + 1, least + length + 1)
        if (costs := cost(n)) > length or n > least + length:  # every piece takes a token or more
            high, high_cost = n, costs
        else:
            low, low_cost = n, costs
    halve = False
    while high - low > 1:
        share = 0.5 if halve or high_cost <= low_cost else (length - low_cost) / (high_cost - low_cost)
        n = min(max(low + int(share * (high - low)), low + 1), high - 1)
        if (costs := cost(n)) > length:
            high, high_cost = n, costs
        else:
            low, low_cost = n, costs
        halve = not halve
    return low


def shares(rng: random.Random, first: float, count: int) -> list[float]:
    """Depths of `count` needles: the first is given, the others anywhere."""
    return [first, *(rng.random() for _ in range(count - 1))]


def weave(
    request: TextRequest,
    ends: tuple[str, str],
    pieces: Iterator[str],
    needles: Sequence[str],
    depths: Sequence[float],
    gap: str = " ",
) -> Draft:
    """The longest prompt of a head, as many pieces as fit with the needles among them, and a tail.

    Args:
        request: what may be how long.
        ends: what stands before and after.
        pieces: the haystack's, without end, each with what separates it from the next.
        needles: what is hidden in it.
        depths: of each needle; at equal places, they stand in the depths' order.
        gap: what separates a needle from the next piece; the last one's is left out.

    Returns:
        The prompt, and the needles' spans in their order.
    """
    known: list[str] = []

    def draft(n: int) -> Draft:
        known.extend(islice(pieces, max(n - len(known), 0)))
        return _insert(ends, known[:n], needles, depths, gap)

    return draft(longest(lambda n: request.count(draft(n).prompt), request.length))


def _insert(
    ends: tuple[str, str], pieces: list[str], needles: Sequence[str], depths: Sequence[float], gap: str
) -> Draft:
    starts = list(accumulate(map(len, pieces), initial=0))
    places = [_nearest(starts, depth * starts[-1]) for depth in depths]
    out, size, spans, done = [ends[0]], len(ends[0]), {}, 0
    for needle in sorted(range(len(needles)), key=lambda i: (places[i], depths[i])):
        before = "".join(pieces[done : places[needle]])
        done, size = places[needle], size + len(before)
        spans[needle] = (size, size + len(needles[needle]))
        out += [before, needles[needle], gap]
        size = spans[needle][1] + len(gap)
    body = "".join([*out, *pieces[done:]])
    body = body.rstrip() if gap.isspace() else body.removesuffix(gap)
    depth = starts[places[0]] / max(starts[-1], 1)
    return Draft(body + ends[1], tuple(spans[i] for i in range(len(needles))), depth)


def _nearest(starts: list[int], at: float) -> int:
    """Which of the ascending numbers is nearest."""
    index = bisect_left(starts, at)
    if index == len(starts):
        return index - 1
    return index - 1 if index and at - starts[index - 1] < starts[index] - at else index
