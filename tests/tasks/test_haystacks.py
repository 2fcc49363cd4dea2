"""Haystacks give sentences without end and lose nothing of a text."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from counters import TEXT

from diffattn.tasks.haystacks import Haystack


@pytest.mark.parametrize("text", [TEXT, "one two three", "no end " * 300, "y" * 2000, "a.b.c\n\n\tindented\n", "x"])
@pytest.mark.parametrize("seed", range(3))
def test_text_comes_in_short_units_and_again(text, seed):
    units = list(islice(Haystack("text", text).units(random.Random(seed), str), 900))
    assert all(unit and unit.strip() for unit in units)
    assert max(len(unit.strip()) for unit in units) <= 302
    assert all(unit[-1].isspace() for unit in units if len(unit) < 300)
    joined = "".join("".join(units).split())
    whole = "".join(text.split())
    start = joined.index(whole)
    assert whole.endswith(joined[:start])
    again = joined[start + len(whole) :]
    assert again == (whole * (1 + len(again) // len(whole)))[: len(again)]


def test_different_seeds_begin_elsewhere():
    first = {next(Haystack("text", TEXT).units(random.Random(seed), str)) for seed in range(20)}
    assert len(first) > 10


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("hay", None, "kind must be one of text, filler, distractors, got 'hay'"),
        ("text", None, "text must be given for the kind 'text'"),
        ("text", " \n", "text must be given for the kind 'text'"),
        ("filler", "words", "and for it alone, got kind 'filler'"),
    ],
)
def test_wrong_haystacks(kind, text, message):
    with pytest.raises(ValueError, match=message):
        Haystack(kind, text)
