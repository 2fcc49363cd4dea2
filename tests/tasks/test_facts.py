"""Facts of one token: every sequence is read again by loops that know the documented numbers alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from diffattn.tasks.draws import distinct, places
from diffattn.tasks.facts import FactsConfig, layout, make_facts, vocabulary_size

CONFIGS = [
    FactsConfig(length=64),
    FactsConfig(length=37, keys=5, values=3, facts=4, questions=7, filler_tokens=2, haystack="distractors"),
    FactsConfig(length=41, depth=0.3, questions=1),
    FactsConfig(length=8, haystack="distractors", depth=1.0),
    FactsConfig(length=33, absent=0.5, questions=9),
    FactsConfig(length=50, facts=3, near_duplicates=2, absent=0.3, values=4),
    FactsConfig(length=50, facts=3, near_duplicates=3, depth=0.0, haystack="distractors"),
    FactsConfig(length=20, facts=6, questions=6, repeat=False),
    FactsConfig(length=1, facts=1, questions=1, depth=0.5),
]


def read(token, config):
    """What a token is, by the documented layout, written out again."""
    sources, keys, values = 1 + config.near_duplicates, config.keys, config.values
    sizes = {
        "fact": sources * keys * values,
        "question": sources * keys,
        "answer": values,
        "none": 1,
        "filler": config.filler_tokens,
        "distractor": config.distractor_keys * values,
    }
    for kind, size in sizes.items():
        if token < size:
            return kind, int(token)
        token -= size
    raise AssertionError("beyond the vocabulary")


@pytest.mark.parametrize("config", CONFIGS)
def test_every_question_has_its_answer(config):
    examples = make_facts(config, 30, 5)
    assert examples.tokens.shape == (30, config.length + config.questions)
    assert examples.false_answers.shape == (30, config.questions, config.near_duplicates)
    for row in range(30):
        read_row(config, examples, row)


def read_row(config, examples, row):
    tokens = [read(token, config) for token in examples.tokens[row]]
    facts = {}  # (source and key) -> (value, position)
    for position, (kind, number) in enumerate(tokens[: config.length]):
        if kind == "fact":
            named = number // config.values
            assert named not in facts
            facts[named] = (number % config.values, position)
        else:
            assert kind == ("filler" if config.haystack == "filler" else "distractor")
    assert len(facts) == config.facts * (1 + config.near_duplicates)
    assert len({named % config.keys for named in facts}) == config.facts
    for question in range(config.questions):
        read_question(config, examples, row, question, tokens, facts)


def read_question(config, examples, row, question, tokens, facts):
    position = examples.queries[row, question]
    assert position == config.length + question
    kind, named = tokens[position]
    assert kind == "question"
    answer = read(examples.answers[row, question], config)
    wrong = [read(token, config) for token in examples.false_answers[row, question] if token >= 0]
    if answer[0] == "none":
        assert config.absent
        assert not {other % config.keys for other in facts} & {named % config.keys}
        assert examples.sources[row, question] == -1
        assert not examples.answerable[row, question]
        assert np.isnan(examples.depths[row, question])
        assert not wrong
        return
    value, stands = facts[named]
    assert answer == ("answer", value)
    assert examples.sources[row, question] == stands
    assert examples.depths[row, question] == (stands / (config.length - 1) if config.length > 1 else 0)
    if config.depth is not None:
        assert abs(stands - config.depth * (config.length - 1)) <= 0.5
    others = {facts[n][0] for n in facts if n % config.keys == named % config.keys and n != named}
    assert {kind for kind, _ in wrong} <= {"answer"}
    assert {value for _, value in wrong} == others
    assert value not in others
    assert len(others) == config.near_duplicates


@pytest.mark.parametrize("config", CONFIGS)
def test_answers_never_stand_in_the_sequence(config):
    tokens = make_facts(config, 50, 1).tokens
    assert not any(read(token, config)[0] in ("answer", "none") for token in tokens.ravel())
    assert tokens.max() < vocabulary_size(config) == layout(config).size


def test_a_seed_repeats_and_another_differs():
    config = FactsConfig(length=64, absent=0.2, near_duplicates=1)
    first, again, other = (make_facts(config, 4, seed) for seed in ([3, 7], [3, 7], [3, 8]))
    for name in ("tokens", "queries", "answers", "sources", "false_answers", "depths"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert (first.tokens != other.tokens).any()


def test_facts_stand_anywhere_and_all_are_asked_for():
    config = FactsConfig(length=10, facts=2, questions=1)
    examples = make_facts(config, 4000, 0)
    stands = Counter(examples.sources[:, 0].tolist())
    keys = Counter((examples.tokens[:, -1] - layout(config).questions).tolist())
    assert len(stands) == 10
    assert max(abs(n - 400) for n in stands.values()) < 5 * np.sqrt(400)
    assert len(keys) == config.keys
    assert max(abs(n - 250) for n in keys.values()) < 5 * np.sqrt(250)


def test_the_share_of_absent_keys():
    examples = make_facts(FactsConfig(length=32, absent=0.25, questions=5), 2000, 0)
    assert abs((~examples.answerable).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 10000)


def test_the_vocabulary_is_the_same_at_every_length_and_in_both_haystacks():
    small, large = FactsConfig(length=8), FactsConfig(length=2048, haystack="distractors", facts=3, depth=0.5)
    assert layout(small) == layout(large)
    assert vocabulary_size(small) == 16 * 16 + 16 + 16 + 1 + 64 + 32 * 16


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"length": 7}, "length must be at least 8, the facts to be placed, got 7"),
        ({"length": 15, "near_duplicates": 1}, "length must be at least 16"),
        ({"keys": 7}, "keys must be at least 8"),
        ({"keys": 8, "absent": 0.1}, "keys must be at least 9"),
        ({"values": 0}, "values must be at least 1, got 0"),
        ({"near_duplicates": 16}, "near_duplicates must be within 0 to values - 1, got 16"),
        ({"haystack": "hay"}, "haystack must be one of filler, distractors, got 'hay'"),
        ({"depth": 1.5}, "depth must be None or within 0 to 1, got 1.5"),
        ({"absent": -0.5}, "absent must be a share within 0 to 1, got -0.5"),
        ({"questions": 9, "repeat": False}, "questions must not exceed the facts"),
    ],
)
def test_wrong_configurations(wrong, message):
    with pytest.raises(ValueError, match=message):
        FactsConfig(**{"length": 64, **wrong})


def test_distinct_draws_every_order_equally_often():
    orders = Counter(map(tuple, distinct(np.random.default_rng(0), 6000, 2, 3).tolist()))
    assert sorted(orders) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert max(abs(n - 1000) for n in orders.values()) < 5 * np.sqrt(1000)


def test_places_are_different_and_the_first_at_its_depth():
    for depth, first in ((0.0, 0), (0.5, 4), (1.0, 8)):
        stand = places(np.random.default_rng(0), 100, 9, 9, depth)
        assert (stand[:, 0] == first).all()
        assert (np.sort(stand, axis=1) == np.arange(9)).all()
