"""What holds for every task by name: lengths, spans, seeds, depths, and the words of refusals."""

from __future__ import annotations

import re
from functools import cache

import pytest
from counters import COUNTERS, TEXT, words

from diffattn.errors import UserError
from diffattn.tasks import TASKS, Haystack, Task, TextRequest, make_texts, make_tokens
from diffattn.tasks.texts.prompts import longest

NAMES = list(TASKS)


def haystack(name, kind=None):
    kinds = TASKS[name].haystacks
    if not kinds:
        return None
    kind = kind or kinds[0]
    return Haystack(kind, TEXT if kind == "text" else None)


@cache
def texts(name, count=words, *, length=600, depth=0.5, examples=3, seed=1, kind=None):
    return make_texts(
        name, count, length=length, depth=depth, examples=examples, seed=seed, haystack=haystack(name, kind)
    )


@pytest.mark.parametrize("count", COUNTERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_is_never_longer_than_asked_for_and_nearly_as_long(name, count):
    longest_piece = {len: 800, words: 60}.get(count, 300)
    for length in (2500, 4001) if count is len else (501, 777):
        for depth in (0.0, 1.0, None):
            if name == "needles_40_2":
                length *= 2
            for example in texts(name, count, length=length, depth=depth, examples=2):
                assert example.length == count(example.prompt) <= length
                assert example.length > length - longest_piece


@pytest.mark.parametrize("name", NAMES)
def test_spans_point_at_the_answers(name):
    for depth in (0.0, 0.5, 1.0, None):
        for example in texts(name, depth=depth, examples=4):
            assert example.answerable == bool(example.spans)
            if not example.answerable:
                assert example.answers == ("NONE",)
                assert example.depth is None
                continue
            assert len(example.spans) == len(example.answers)
            for answer, (start, end) in zip(example.answers, example.spans, strict=True):
                assert re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", example.prompt[start:end])
            assert len(set(example.answers)) == len(example.answers)
            assert not set(example.answers) & set(example.false_answers)
            assert example.max_new_tokens >= words(" ".join(example.answers))


@pytest.mark.parametrize("name", NAMES)
def test_every_false_answer_stands_in_the_prompt(name):
    for example in texts(name, examples=4):
        assert all(false in example.prompt for false in example.false_answers)
    assert bool(texts(name, examples=4)[1].false_answers) == (name in ("absent", "citation"))


@pytest.mark.parametrize("name", NAMES)
def test_seeds_repeat_and_differ(name):
    assert texts(name) == texts.__wrapped__(name)
    assert texts(name, examples=2) == texts(name)[:2]
    assert not {e.prompt for e in texts(name)} & {e.prompt for e in texts(name, seed=2)}
    assert len({e.prompt for e in texts(name)}) == 3


@pytest.mark.parametrize("name", [name for name in NAMES if TASKS[name].takes_depth])
def test_a_seed_asks_the_same_at_every_depth(name):
    asked = [[(e.answers, e.prompt[-60:]) for e in texts(name, depth=depth)] for depth in (0.0, 0.5, 1.0)]
    assert asked[0] == asked[1] == asked[2]
    starts = [texts(name, depth=depth)[0].spans for depth in (0.0, 0.5, 1.0)]
    firsts = [min(spans)[0] for spans in starts]
    lasts = [max(spans)[0] for spans in starts]
    assert firsts[0] < firsts[1] or lasts[1] < lasts[2]
    assert {e.depth for e in texts(name, depth=0.25) if e.answerable} == {0.25}
    for example in texts(name, depth=None):
        assert not example.answerable or 0 <= example.depth <= 1


@pytest.mark.parametrize("name", [name for name in NAMES if "distractors" in TASKS[name].haystacks])
def test_distractors_are_all_there_is(name):
    for example in texts(name, kind="distractors"):
        body = example.prompt.split("\n\n")[1]
        sentences = re.findall(r"[^.]+\.", body)
        forms = {re.sub(r"\[\w{6}\]|\b[\w-]*\d[\w-]*|\b[A-Z][a-zA-Z]+$", "#", s.strip(" .")) for s in sentences}
        forms = {re.sub(r"(of|for) \S+ is|(VAR) [A-Z]{5}", r"\1 # is", form) for form in forms}
        assert len(sentences) > 20
        assert len(forms) <= (2 if name == "tracking" else 1), forms


def test_what_make_texts_refuses():
    with pytest.raises(UserError, match="there is no task 'nothing': give one of needle, "):
        make_texts("nothing", words, length=100, examples=1, seed=0)
    with pytest.raises(UserError, match="niah_single_2 hides its needles in text: give a text"):
        make_texts("niah_single_2", words, length=100, examples=1, seed=0)
    with pytest.raises(UserError, match="niah_single_1 takes a haystack of filler, not of distractors"):
        make_texts("niah_single_1", words, length=100, examples=1, seed=0, haystack=Haystack("distractors"))
    with pytest.raises(UserError, match="there is no task 'nothing'"):
        make_tokens("nothing", length=64, examples=1, seed=0)
    with pytest.raises(UserError, match="niah_multivalue is of text alone"):
        make_tokens("niah_multivalue", length=64, examples=1, seed=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_length_too_small_says_the_least(name):
    with pytest.raises(UserError, match=r"takes at least \d+ tokens: give a length of that or more, not 9") as error:
        texts(name, length=9, examples=1)
    least = int(re.search(r"least (\d+)", str(error.value)).group(1))
    assert texts(name, length=least, examples=1)[0].length == least
    with pytest.raises(UserError):
        texts(name, length=least - 1, examples=1)


@pytest.mark.parametrize("name", [name for name in NAMES if TASKS[name].tokens])
def test_token_forms_run_by_name(name):
    for depth in (None, 0.0, 1.0):
        examples, vocabulary = make_tokens(name, length=128, depth=depth, examples=6, seed=[1, 2])
        assert 128 <= examples.tokens.shape[1] <= 136
        assert 0 <= examples.tokens.min() <= examples.tokens.max() < vocabulary
        assert 0 <= examples.answers.min() <= examples.answers.max() < vocabulary
        if depth is not None and name in ("needle", "needles_6_2", "key_values", "niah_multikey_3", "citation"):
            assert (examples.depths == depth).all()


def test_every_task_says_what_it_is():
    for name, task in TASKS.items():
        assert isinstance(task, Task)
        assert task.name == name
        assert task.summary
        assert task.texts


@pytest.mark.parametrize("length", range(60))
def test_longest_is_the_longest(length):
    cost = [3, 4, 4, 9, 10, 22, 22, 23, 40].__getitem__
    best = max((n for n in range(9) if cost(n) <= length), default=None)
    if best is None:
        with pytest.raises(UserError, match="at least 3 tokens"):
            longest(lambda n: cost(min(n, 8)) + max(n - 8, 0), length)
    else:
        assert longest(lambda n: cost(min(n, 8)) + max(n - 8, 0), length) == best + max(length - 40, 0)


def test_a_counter_that_never_grows_still_ends():
    assert longest(lambda _: 1, 10) <= 11


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"depth": -0.1}, "depth must be"), ({"length": 0}, "must be positive"), ({"examples": 0}, "must be positive")],
)
def test_wrong_requests(wrong, message):
    with pytest.raises(ValueError, match=message):
        TextRequest(**{"count": len, "length": 5, **wrong})
