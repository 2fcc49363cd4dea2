"""The other token forms: presets of facts, documents, recall, tracking and classification, read again by loops."""

from __future__ import annotations

import numpy as np
import pytest

from diffattn.tasks.facts import FactsConfig, layout, make_facts, vocabulary_size
from diffattn.tasks.tokens import presets
from diffattn.tasks.tokens.classification import ShotsConfig, make_shots, shots_vocabulary_size
from diffattn.tasks.tokens.documents import DocumentsConfig, documents_vocabulary_size, make_documents
from diffattn.tasks.tokens.recall import RecallConfig, make_recall, recall_vocabulary_size
from diffattn.tasks.tokens.tracking import TrackingConfig, make_tracking, tracking_vocabulary_size


@pytest.mark.parametrize("gold", [0, 4, 12])
def test_key_values_ask_for_the_pair_at_its_place(gold):
    config = presets.key_values(13, gold, keys=20)
    examples = make_facts(config, 10, 0)
    assert (examples.sources == gold).all()
    facts = examples.tokens[:, :13]
    assert (facts < 20 * config.values).all()
    assert all(len(set(row // config.values)) == 13 for row in facts)


def test_needles_ask_for_different_facts():
    config = presets.needles(60, 40, 5)
    questions = make_facts(config, 20, 0).tokens[:, 60:]
    assert all(len(set(row)) == 5 for row in questions.tolist())
    with pytest.raises(ValueError, match="questions must not exceed"):
        presets.needles(60, 4, 2, depth=0.5)


@pytest.mark.parametrize(
    ("name", "facts", "questions"),
    [
        ("niah_single", 1, 1),
        ("niah_multikey_1", 4, 1),
        ("niah_multikey_2", 32, 1),
        ("niah_multikey_3", 32, 1),
        ("niah_multiquery", 4, 4),
    ],
)
def test_ruler_variants_hold_so_many_facts(name, facts, questions):
    config = presets.ruler(name, 32, keys=32)
    tokens, first = make_facts(config, 5, 0).tokens, layout(config)
    held = (tokens < first.questions) | (tokens >= first.distractors)
    assert (held.sum(1) == facts).all()
    assert tokens.shape == (5, 32 + questions)
    assert len(presets.RULER_TOKENS) == 5


def test_an_unknown_ruler_variant():
    with pytest.raises(ValueError, match="name must be one of niah_single"):
        presets.ruler("niah_multivalue", 32)


@pytest.mark.parametrize("gold", [None, 0, 2, 4])
def test_documents_begin_with_a_title_and_the_gold_one_answers(gold):
    facts = FactsConfig(length=16, keys=20, values=7, questions=3, absent=0.2 if gold is None else 0.0)
    config = DocumentsConfig(documents=5, document_tokens=6, facts_each=3, gold=gold, titles=9, facts=facts)
    examples = make_documents(config, 40, 0)
    titles = examples.tokens[:, :30:6] - vocabulary_size(config.whole)
    assert examples.tokens.max() < documents_vocabulary_size(config)
    assert titles.min() >= 0
    assert all(len(set(row)) == 5 for row in titles.tolist())
    for row, tokens in enumerate(examples.tokens[:, :30]):
        held = [i for i, token in enumerate(tokens) if token < 20 * 7]
        assert [i // 6 for i in held] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
        for source, answer in zip(examples.sources[row], examples.answers[row], strict=True):
            assert source == -1 or answer - layout(config.whole).answers == tokens[source] % 7
    found = set((examples.sources[examples.answerable] // 6).tolist())
    assert found == (set(range(5)) if gold is None else {gold})


def test_recall_asks_for_each_key_once_behind_the_pairs():
    config = RecallConfig(length=61, pairs=7, questions=5, keys=20, values=30, filler_tokens=4)
    examples = make_recall(config, 50, 0)
    assert examples.tokens.max() < recall_vocabulary_size(config) == 54
    for row, tokens in enumerate(examples.tokens.tolist()):
        pairs = dict(zip(tokens[0:14:2], tokens[1:14:2], strict=True))
        assert len(pairs) == 7
        assert all(key < 20 <= value < 50 for key, value in pairs.items())
        asked = [i for i, token in enumerate(tokens) if i >= 14 and token < 20]
        assert asked == examples.queries[row].tolist()
        assert [pairs[tokens[i]] for i in asked] == examples.answers[row].tolist()
        assert len({tokens[i] for i in asked}) == 5
        assert [tokens[i] for i in examples.sources[row]] == examples.answers[row].tolist()
        assert [tokens[i - 1] for i in examples.sources[row]] == [tokens[i] for i in asked]


def test_recall_asks_early_by_a_power_law():
    config = RecallConfig(length=102, pairs=1, questions=1, power=0.01)
    gaps = make_recall(config, 20000, 0).queries[:, 0] - 2
    expected = np.arange(1, 101) ** -0.99
    expected /= expected.sum()
    assert abs((gaps == 0).mean() - expected[0]) < 5 * np.sqrt(expected[0] / 20000)
    assert abs((gaps < 10).mean() - expected[:10].sum()) < 5 * np.sqrt(0.25 / 20000)


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_tracking_leads_back_to_the_value(hops):
    config = TrackingConfig(length=29, chains=3, hops=hops, questions=4, variables=12, values=5, filler_tokens=3)
    examples = make_tracking(config, 40, 0)
    assert examples.tokens.max() < tracking_vocabulary_size(config) == 12 * 5 + 12 * 12 + 12 + 5 + 3
    for row, tokens in enumerate(examples.tokens.tolist()):
        values, steps, first = {}, {}, {}
        for position, token in enumerate(tokens[:29]):
            if token < 60:
                values[token // 5], first[token // 5], steps[token // 5] = token % 5, position, 0
            elif token < 60 + 144:
                name, other = divmod(token - 60, 12)
                values[name], first[name], steps[name] = values[other], first[other], steps[other] + 1
        assert len(values) == 3 * (hops + 1)
        for question in range(4):
            name = tokens[29 + question] - 204
            assert steps[name] == hops
            assert examples.answers[row, question] == 216 + values[name]
            assert examples.sources[row, question] == first[name]
            wrong = {216 + value for value in values.values()} - {216 + values[name]}
            assert set(examples.false_answers[row, question].tolist()) == wrong
            assert len(wrong) == 2


@pytest.mark.parametrize("order", ["random", "alternating", "blocked"])
def test_shots_are_the_same_in_every_permutation(order):
    config = ShotsConfig(classes=3, members=9, each=4, questions=2, order=order)
    first, second = (make_shots(config, 30, [1, 2], permutation) for permutation in (0, 1))
    assert first.tokens.max() < shots_vocabulary_size(config) == 30
    assert (first.tokens != second.tokens).any()
    np.testing.assert_array_equal(first.answers, second.answers)
    np.testing.assert_array_equal(first.tokens[:, 24:], second.tokens[:, 24:])
    for row, tokens in enumerate(first.tokens.tolist()):
        shots = list(zip(tokens[0:24:2], tokens[1:24:2], strict=True))
        again = second.tokens[row].tolist()
        assert sorted(shots) == sorted(zip(again[0:24:2], again[1:24:2], strict=True))
        labels = {item // 9: label for item, label in shots}
        assert sorted(labels.values()) == [27, 28, 29]
        assert all(labels[item // 9] == label for item, label in shots)
        assert len({item for item, _ in shots}) == 12
        classes = [item // 9 for item, _ in shots]
        assert sorted(classes) == [0] * 4 + [1] * 4 + [2] * 4
        check_order(classes, order)
        for question, item in enumerate(tokens[24:]):
            assert item not in dict(shots)
            answer = first.answers[row, question]
            assert labels[item // 9] == answer
            assert first.sources[row, question] == tokens.index(answer)


def check_order(classes, order):
    if order == "blocked":
        assert all(len(set(classes[i : i + 4])) == 1 for i in (0, 4, 8))
    if order == "alternating":
        assert classes == classes[:3] * 4
        assert len(set(classes[:3])) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: presets.key_values(5, 5), "gold must be within 0 to 4, got 5"),
        (lambda: DocumentsConfig(documents=3, gold=3), "gold must be within 0 to 2, got 3"),
        (lambda: DocumentsConfig(documents=3, titles=2), "documents must be within 1 to 2"),
        (lambda: DocumentsConfig(document_tokens=2, facts_each=2), "document_tokens must exceed facts_each, 2"),
        (lambda: RecallConfig(length=23), "length must be at least 24, got 23"),
        (lambda: RecallConfig(length=64, questions=9), "questions <= pairs"),
        (lambda: RecallConfig(length=64, power=0), "power must be positive"),
        (lambda: TrackingConfig(length=5), "length must be at least 6, the assignments, got 5"),
        (lambda: TrackingConfig(length=64, variables=5), "variables must be at least 6"),
        (lambda: ShotsConfig(each=32), "members must exceed each"),
        (lambda: ShotsConfig(order="sorted"), "order must be one of random, alternating, blocked, got 'sorted'"),
    ],
)
def test_wrong_configurations(make, message):
    with pytest.raises(ValueError, match=message):
        make()
