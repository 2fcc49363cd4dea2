"""The exact format of every text form, by small parsers that share nothing with the generators."""

from __future__ import annotations

import json
import random
import re
from collections import Counter

import pytest
from counters import TEXT, pieces, words

from diffattn.tasks import Haystack, TextRequest
from diffattn.tasks.names import CITIES, Fresh
from diffattn.tasks.texts.classification import TYPES, classification_texts
from diffattn.tasks.texts.documents import document_texts
from diffattn.tasks.texts.hallucination import absent_texts, citation_texts
from diffattn.tasks.texts.needles import city_texts, listed
from diffattn.tasks.texts.records import key_value_texts, recall_texts
from diffattn.tasks.texts.ruler import RULER_NEEDLES, ruler_texts, tracking_texts

FACT = re.compile(r"The magic number of (\w+) is (\d{7})\.")
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)


def request(count=words, length=700, **rest):
    return TextRequest(count=count, length=length, **{"examples": 4, **rest})


def hidden(example):
    """The city facts of a prompt, by city; fails if a city comes twice or a fact is cut."""
    body, _, _ = example.prompt.partition("\n\nQuestion:")
    pairs = FACT.findall(body)
    assert body.count("The magic number of") == len(pairs)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("count", [len, words, pieces])
def test_forty_cities_none_twice_and_none_cut(depth, count):
    length = 6000 if count is len else 1500
    for example in city_texts(request(count, length, depth=depth), placed=40, asked=2):
        numbers = hidden(example)
        assert len(numbers) == 40
        question = re.search(r"What are the magic numbers of (\w+) and (\w+)\?", example.prompt)
        assert tuple(numbers[city] for city in question.groups()) == example.answers
        assert example.prompt.endswith(f"The magic numbers of {question[1]} and {question[2]} are")
        assert len(set(numbers.values())) == 40


@pytest.mark.parametrize("kind", ["filler", "text"])
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_needle_stands_at_its_depth_to_the_nearest_sentence(kind, depth):
    hay = Haystack(kind, TEXT if kind == "text" else None)
    for example in city_texts(request(length=900, depth=depth, haystack=hay), placed=6):
        ((start, end),) = example.spans
        head = example.prompt.index("\n\n") + 2
        tail = example.prompt.index("\n\nQuestion:")
        before, after = (FACT.sub("", part) for part in (example.prompt[head:start], example.prompt[end:tail]))
        total = len(before) + len(after)
        assert abs(len(before) - depth * total) <= 150 / 2 + 7
        if depth == 0:
            assert start == head
        if depth == 1:
            assert end == tail


def test_text_keeps_its_order_and_nothing_of_it_is_lost():
    example = city_texts(request(length=2000, depth=0.4, haystack=Haystack("text", TEXT)), placed=5)[0]
    body = example.prompt.split("\n\n", 1)[1].partition("\n\nQuestion:")[0]
    left = FACT.sub("", body).split()
    doubled = (TEXT + "\n" + TEXT).split()
    start = next(i for i in range(len(doubled)) if doubled[i : i + 25] == left[:25])
    assert doubled[start : start + len(left)] == left


def test_filler_is_rulers_and_distractors_are_other_cities():
    example = city_texts(request(depth=0.5))[0]
    body = FACT.sub("", example.prompt.split("\n\n")[1])
    noise = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. " * 50
    assert " ".join(noise.split()).startswith(" ".join(body.split()))
    example = city_texts(request(depth=0.5, haystack=Haystack("distractors")), placed=3, asked=3)[0]
    numbers = hidden(example)
    assert len(set(numbers) & set(CITIES)) == 3
    assert len(numbers) > 50
    assert len(set(numbers.values())) == len(numbers)


def test_needles_refuse_more_than_there_are():
    for placed, asked in ((0, 0), (3, 4), (len(CITIES) + 1, 1)):
        with pytest.raises(ValueError, match="asked <= placed <= "):
            city_texts(request(), placed=placed, asked=asked)
    assert [listed(["a", "b", "c"][:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]


@pytest.mark.parametrize("depth", DEPTHS)
def test_key_values_are_json_with_the_gold_pair_at_its_place(depth):
    for example in key_value_texts(request(len, 3000, depth=depth)):
        body = example.prompt.split("JSON data:\n")[1].split("\n\nKey: ")[0]
        pairs = json.loads(body, object_pairs_hook=list)
        key = re.search(r'\n\nKey: "([0-9a-f-]{36})"\nCorresponding value:$', example.prompt)[1]
        place = [name for name, _ in pairs].index(key)
        assert abs(place - depth * (len(pairs) - 1)) <= 0.5
        assert pairs[place][1] == example.answers[0]
        assert len({*dict(pairs), *dict(pairs).values()}) == 2 * len(pairs)


def test_recall_lists_every_word_once():
    for example in recall_texts(request(depth=1.0), asked=5):
        body = example.prompt.split("\n\n")[1]
        pairs = [line.split(": ") for line in body.split("\n")]
        assert len(dict(pairs)) == len(pairs) > 100
        asked = re.search(r"in this order: (.+)\?\nAnswer:$", example.prompt)[1].split(", ")
        assert tuple(dict(pairs)[word] for word in asked) == example.answers
        assert pairs[-1][0] in asked


@pytest.mark.parametrize("depth", DEPTHS)
def test_documents_are_numbered_and_the_gold_one_answers(depth):
    for example in document_texts(request(depth=depth, examples=8)):
        _, body, question = example.prompt.split("\n\n")
        documents = re.findall(r"^Document \[(\d+)\]\(Title: (\w+)\) (.+)$", body, re.M)
        assert [int(number) for number, _, _ in documents] == list(range(1, len(documents) + 1))
        assert len({title for _, title, _ in documents}) == len(documents) == body.count("\n") + 1
        holding = [i for i, (_, title, _) in enumerate(documents) if title in question]
        assert holding == [round(depth * (len(documents) - 1))]
        fact = example.prompt[slice(*example.spans[0])]
        assert fact in documents[holding[0]][2]
        assert example.answers[0] in fact
        assert question.endswith("\nAnswer:")


def test_absent_cities_are_absent_in_every_second_example():
    examples = absent_texts(request(examples=9, depth=0.5), placed=7)
    assert [e.answerable for e in examples] == [True, False] * 4 + [True]
    for example in examples:
        numbers = hidden(example)
        city = re.search(r"magic number of (\w+)\? If the text does not give it, answer NONE", example.prompt)[1]
        assert len(numbers) == 7
        assert example.answers == (numbers.get(city, "NONE"),)
        assert set(example.false_answers) == (set() if example.answerable else set(numbers.values()))
        assert example.answerable or example.prompt.count(city) == 1


@pytest.mark.parametrize(("share", "missing"), [(0.0, 0), (0.3, 3), (1.0, 10)])
def test_the_share_of_absent_cities(share, missing):
    assert sum(not e.answerable for e in absent_texts(request(examples=10), absent=share)) == missing


def test_a_citation_is_of_one_year_among_others():
    for example in citation_texts(request(depth=0.25), duplicates=4):
        reports = re.findall(r"\[(\w{6})\] In (\d{4}), (\d{5}) storks were counted in (\w+)\.", example.prompt)
        assert len(reports) == 5
        assert len({city for *_, city in reports}) == 1
        city, year = re.search(r"counted in (\w+) in (\d{4}), and which", example.prompt).groups()
        ((code, count),) = [(code, count) for code, when, count, where in reports if (when, where) == (year, city)]
        assert example.answers == (count, code)
        wrong = {x for other, when, number, _ in reports if when != year for x in (other, number)}
        assert set(example.false_answers) == wrong
        assert len(wrong) == 8


@pytest.mark.parametrize("name", RULER_NEEDLES)
def test_ruler_needles(name):
    kind = RULER_NEEDLES[name]
    value = r"\d{7}" if kind.values == "numbers" else r"[0-9a-f-]{36}"
    key = r"[a-z]+-[a-z-]+" if kind.keys == "words" else r"[0-9a-f-]{36}"
    needle = re.compile(rf"One of the special magic {kind.values} for ({key}) is: ({value})\.")
    hay = Haystack(kind.haystack, TEXT if kind.haystack == "text" else None)
    for example in ruler_texts(request(depth=0.5, haystack=hay), name):
        found = needle.findall(example.prompt)
        distractors = kind.haystack == "distractors"
        assert len(found) == (len(found) if distractors else kind.placed * kind.each)
        assert len(found) > 40 or not distractors
        assert len({k for k, _ in found}) == len(found) / kind.each
        assert len({v for _, v in found}) == len(found)
        keys = re.search(r"What .+ special magic \w+ for ([^?]+) mentioned in the text\?", example.prompt)[1]
        asked = re.split(", | and ", keys)
        assert len(asked) == kind.asked
        assert sorted(example.answers) == sorted(v for k, v in found if k in asked)
        assert example.prompt.endswith(
            f"for {keys} mentioned in the text {'are' if len(example.answers) > 1 else 'is'}"
        )


@pytest.mark.parametrize(("chains", "hops"), [(1, 0), (1, 4), (3, 2)])
@pytest.mark.parametrize("depth", [0.0, 0.7, 1.0])
def test_tracking_runs_as_a_program(chains, hops, depth):
    for example in tracking_texts(request(depth=depth), chains=chains, hops=hops):
        values = {}
        for name, number, other in re.findall(r"VAR ([A-Z]{5}) = (?:(\d{5})|VAR ([A-Z]{5}))\.", example.prompt):
            assert name not in values
            values[name] = number or values[other]
        assert len(values) == chains * (hops + 1)
        asked = re.search(r"Which variables are assigned the value (\d{5})", example.prompt)[1]
        assert set(example.answers) == {name for name, value in values.items() if value == asked}
        assert set(example.false_answers) == {name for name, value in values.items() if value != asked}
        assert f"The {hops + 1} variables" in example.prompt


def shots(prompt):
    found = re.findall(r"Question: (.+)\nType:(?: (\w+))?", prompt)
    return found[:-1], found[-1]


@pytest.mark.parametrize("order", ["random", "alternating", "blocked"])
def test_classification_shows_the_same_in_every_order(order):
    examples = classification_texts(request(examples=12), order=order, permutations=3)
    assert len(examples) == 36
    for first in range(0, 36, 3):
        group = [shots(example.prompt) for example in examples[first : first + 3]]
        known, last = group[0]
        assert all(sorted(others) == sorted(known) and end == last for others, end in group)
        assert len({example.prompt for example in examples[first : first + 3]}) == 3
        assert len(set(known)) == len(known)
        assert last[0] not in dict(known)
        for others, _ in group:
            check_labels([label for _, label in others], order)
    assert Counter(example.answers[0] for example in examples) == dict.fromkeys(TYPES, 6)


def check_labels(labels, order):
    each = len(labels) // 6
    assert each > 3
    assert Counter(labels) == dict.fromkeys(TYPES, each)
    if order == "blocked":
        assert all(len(set(labels[i : i + each])) == 1 for i in range(0, len(labels), each))
    if order == "alternating":
        assert labels == labels[:6] * each


def test_a_questions_form_tells_its_type():
    forms = [form for questions in TYPES.values() for form in questions]
    assert len(set(forms)) == len(forms)
    for example in classification_texts(request(examples=6)):
        known, last = shots(example.prompt)
        for question, label in [*known, (last[0], example.answers[0])]:
            matches = [
                re.fullmatch(re.escape(form).replace(r"\{\}", r"[A-Z][a-z]+"), question) for form in TYPES[label]
            ]
            assert any(matches), (question, label)


def test_wrong_arguments():
    for make, message in (
        (lambda: tracking_texts(request(), chains=0), "chains must be positive"),
        (lambda: recall_texts(request(), asked=0), "asked must be at least 1"),
        (lambda: absent_texts(request(), placed=len(CITIES)), "placed must be within"),
        (lambda: absent_texts(request(), absent=2), "absent must be a share"),
        (lambda: citation_texts(request(), duplicates=0), "duplicates must be within"),
        (lambda: ruler_texts(request(), "niah"), "name must be one of niah_single_1"),
        (lambda: classification_texts(request(), order="up"), "order must be one of"),
        (lambda: classification_texts(request(), permutations=0), "permutations must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_names_never_come_twice():
    fresh = Fresh(random.Random(0))
    for draw, count in ((fresh.word, 12000), (fresh.name, 5000), (fresh.uuid, 100), (lambda: fresh.number(2), 90)):
        drawn = [draw() for _ in range(count)]
        assert len(set(drawn)) == count
    assert len(set(CITIES)) == len(CITIES) >= 120
    assert all(city.isalpha() and city.isascii() for city in CITIES)
