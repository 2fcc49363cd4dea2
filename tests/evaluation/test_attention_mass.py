"""Attention masses of models made by hand are exact; those of random ones follow from eager attention's own maps."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from diffattn.errors import UserError
from diffattn.evaluation.answer_spans import SpanQuestions
from diffattn.evaluation.attention_mass import AttentionMassConfig, measure
from diffattn.evaluation.recorded_scores import learned_sinks
from diffattn.tasks import TokenExamples
from loud_models import FOREIGN, LENGTH, OURS, WINDOW, foreign, ours, tokens
from planted_models import ANSWER, ASKED, DECOY, FILLER, LAM, planted

CONFIG = AttentionMassConfig(batch_size=2)
N = 9  # keys that the planted question sees


def planted_question(**changes):
    row = np.full((1, 12), FILLER)
    row[0, 3], row[0, 5], row[0, 8] = ANSWER, DECOY, ASKED
    return SpanQuestions(tokens=row, **{"queries": np.array([[8]]), "sources": np.array([[3]]), **changes})


def numbers(mass):
    return {name: value for name, value in asdict(mass).items() if value is not None}


def softmax_mass(answer, noise, sink, own, entropy):
    shares = {"answer_share": answer, "noise_share": noise, "sink_share": sink}
    return {"answer": answer, "noise": noise, "sink": sink, "own": own, "absolute": 1, "negative": 0, **shares} | {
        "entropy": entropy
    }


UNIFORM = softmax_mass(1 / N, (N - 3) / N, 1 / N, 1 / N, math.log(N))
ON_ANSWER, ON_DECOY = softmax_mass(1, 0, 0, 0, 0), softmax_mass(0, 1, 0, 0, 0)


def signed_mass(answer, noise, sink, own, negative):
    total = abs(answer) + noise + sink + own
    shares = {"answer_share": abs(answer) / total, "noise_share": noise / total, "sink_share": sink / total}
    masses = {"answer": answer, "noise": noise, "sink": sink, "own": own, "absolute": total, "negative": negative}
    return {**masses, **shares}


def assert_mass(mass, expected):
    assert numbers(mass) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("first", "expected"), [(None, UNIFORM), (ANSWER, ON_ANSWER), (DECOY, ON_DECOY)])
def test_planted_softmax(first, expected):
    result = measure(planted("softmax", first), planted_question(), CONFIG)
    assert (result.questions, result.answerable, len(result.heads)) == (1, 1, 2)
    for head in result.heads:
        assert_mass(head.first, expected)
        assert head.second is head.signed is head.lam is None
    assert_mass(result.summary.mean, expected)


@pytest.mark.parametrize("attention", ["v1", "v2"])
def test_planted_signed_maps(attention):
    lam = LAM[attention]
    cases = {
        (None, None): (UNIFORM, UNIFORM, signed_mass(*[(1 - lam) * UNIFORM[k] for k in list(UNIFORM)[:4]], 0)),
        (ANSWER, DECOY): (ON_ANSWER, ON_DECOY, signed_mass(1, lam, 0, 0, lam)),
        (DECOY, ANSWER): (ON_DECOY, ON_ANSWER, signed_mass(-lam, 1, 0, 0, lam)),
        (ANSWER, None): (
            ON_ANSWER,
            UNIFORM,
            signed_mass(1 - lam / N, lam * (N - 3) / N, lam / N, lam / N, lam * (N - 1) / N),
        ),
    }
    for (first, second), (on_first, on_second, signed) in cases.items():
        result = measure(planted(attention, first, second), planted_question(), CONFIG)
        for head in result.heads:
            assert_mass(head.first, on_first)
            assert_mass(head.second, on_second)
            assert_mass(head.signed, signed)
            assert head.lam == pytest.approx(lam)
        assert_mass(result.summary.mean, signed)
        assert_mass(result.summary.first, on_first)
        assert_mass(result.summary.second, on_second)


def test_spans_first_tokens_and_questions_without_a_source():
    model, asked = planted("softmax"), np.array([[8, 8, 8, 8]])
    of_spans = planted_question(queries=asked, sources=np.array([[[2, 5], [0, 2], [-1, -1], [8, 10]]]))
    for changes, answer, noise, sink, own in (
        ({}, (3 + 2 + 1) / 3 / N, (N - 5 + N - 3 + N - 2) / 3 / N, 3 / 4 / N, 3 / 4 / N),
        ({"queries": asked[:, :1], "sources": of_spans.sources[:, :1]}, 3 / N, (N - 5) / N, 1 / N, 1 / N),
        ({"queries": asked[:, :1], "sources": np.array([[-1]])}, None, None, 1 / N, 1 / N),
    ):
        result = measure(model, replace(of_spans, **changes), CONFIG)
        first = result.heads[0].first
        given = (first.answer, first.noise, first.sink, first.own, first.entropy)
        assert given == pytest.approx((answer, noise, sink, own, math.log(N)), abs=1e-7)
    assert (result.questions, result.answerable, result.summary.best) == (1, 0, None)


def test_examples_of_tasks_and_several_lengths_at_once():
    question = planted_question()
    depths, false = np.array([[0.3]]), np.full((1, 1, 1), -1)
    as_task = TokenExamples(**vars(question), answers=question.sources, false_answers=false, depths=depths)
    short = SpanQuestions(tokens=np.full((2, 5), FILLER), queries=np.array([[3], [4]]), sources=np.array([[1], [2]]))
    result = measure(planted("softmax"), [as_task, short], CONFIG)
    assert result.questions == 3
    assert result.heads[0].first.answer == pytest.approx((1 / N + 1 / 4 + 1 / 5) / 3)


def expected_of(maps, queries, sources):
    """Answer, noise, sink, own and the signed row's negative, means over questions, by loops; of every head."""
    found = []
    for row in range(len(queries)):
        for query, (start, end) in zip(queries[row], sources[row], strict=True):
            weights = maps[row, :, query].double().numpy()
            rest = [k for k in range(1, LENGTH) if k != query and not start <= k < end]
            parts = [weights[:, start:end].sum(1), np.abs(weights[:, rest]).sum(1), np.abs(weights[:, 0])]
            found.append([*parts, np.abs(weights[:, query]), -np.minimum(weights, 0).sum(1)])
    return np.mean(found, 0).T


QUERIES = np.array([[22, 10, 17], [12, 22, 9]])
SOURCES = np.array([[[3, 6], [8, 9], [1, 2]], [[5, 10], [20, 21], [2, 4]]])
RANDOM = SpanQuestions(tokens=tokens().numpy(), queries=QUERIES, sources=SOURCES)


def masses(mass):
    return [mass.answer, mass.noise, mass.sink, mass.own, mass.negative]


@pytest.mark.parametrize("name", [*FOREIGN, *OURS])
def test_random_models_against_their_eager_maps(name):
    model = foreign(name) if name in FOREIGN else ours(name)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(tokens(), output_attentions=True, use_cache=False).attentions
    result = measure(model, RANDOM, CONFIG)
    heads = [[head.of_values for head in result.heads if head.layer == layer] for layer in (0, 1)]
    for found, of_layer in zip(heads, maps, strict=True):
        expected = expected_of(of_layer, QUERIES, SOURCES)
        np.testing.assert_allclose([masses(mass) for mass in found], expected, rtol=1e-4, atol=2e-6)
    if name in FOREIGN:
        for head in result.heads:  # where it is the only map, its entropy too
            attended = maps[head.layer][[[0], [1]], head.head, QUERIES].double()
            taken = 1 - attended.sum(-1, keepdim=True).clamp(max=1)  # a learned sink's
            entropy = torch.special.entr(torch.cat([attended, taken], -1)).sum(-1).mean()
            assert head.first.entropy == pytest.approx(entropy.item(), rel=1e-4, abs=1e-4)
    best = max(result.heads, key=lambda head: head.of_values.answer_share)
    assert result.summary.best == (best.layer, best.head)
    assert result.summary.best_mass == best.of_values
    assert result.summary.mean.noise == pytest.approx(np.mean([head.of_values.noise for head in result.heads]))


def test_a_learned_sinks_share_goes_to_no_key():
    model = foreign("gpt_oss")
    with torch.no_grad():
        for layer in model.model.layers:
            learned_sinks(layer.self_attn).fill_(60.0)
    first = measure(model, RANDOM, CONFIG).heads[0].first
    assert first.absolute < 1e-6
    assert first.answer_share + first.noise_share <= 1


def test_an_answer_outside_the_window_has_no_mass():
    question = SpanQuestions(tokens=tokens().numpy(), queries=np.full((2, 1), 22), sources=np.full((2, 1), 22 - WINDOW))
    near = replace(question, sources=question.sources + 1)
    model = foreign("mistral")
    assert {head.first.answer for head in measure(model, question, CONFIG).heads} == {0}
    assert min(head.first.answer for head in measure(model, near, CONFIG).heads) > 0


def test_the_batch_does_not_matter_and_the_model_is_left_as_it_was(monkeypatch):
    model = ours("v2").train()
    result = measure(model, RANDOM, CONFIG)
    assert model.training
    assert model.config._attn_implementation == "diffattn"
    json.dumps(result.to_dict(), allow_nan=False)
    monkeypatch.setattr("diffattn.evaluation.attention_mass._SCORES", 1)
    single = measure(model, RANDOM, AttentionMassConfig(batch_size=1))
    for one, other in zip(result.heads, single.heads, strict=True):
        np.testing.assert_allclose(masses(one.signed), masses(other.signed), rtol=1e-4, atol=1e-6)


def test_a_diverged_model_has_no_numbers():
    model = ours("v1")
    with torch.no_grad():
        model.model.layers[1].self_attn.k_proj.weight.fill_(torch.nan)
    result = measure(model, RANDOM, CONFIG)
    assert result.summary.mean.answer is None
    assert [head.signed.answer is None for head in result.heads] == [False] * 2 + [True] * 2
    json.dumps(result.to_dict(), allow_nan=False)


def test_wrong_questions():
    model = planted("softmax")
    for changes, message in (
        ({"queries": np.array([[12]])}, "queries: expected positions from 0 to 11, got 12 to 12"),
        ({"queries": np.array([8])}, r"queries: expected shape \[1, Q\], got \[1\]"),
        ({"sources": np.array([[3, 4]])}, r"sources: expected shape \[1, 1\] or with a last 2, got \[1, 2\]"),
        ({"sources": np.array([[12]])}, "sources: expected positions from 0 to 12, got 12 to 13"),
        ({"queries": np.zeros((1, 0), int), "sources": np.zeros((1, 0), int)}, "data: expected one question or more"),
    ):
        with pytest.raises(ValueError, match=message):
            measure(model, planted_question(**changes), CONFIG)
    with pytest.raises(UserError, match="a sequence of 65 tokens is longer"):
        measure(model, replace(planted_question(), tokens=np.ones((1, 65), int)), CONFIG)
    with pytest.raises(UserError, match="the model knows 16 tokens, the corpus has others"):
        measure(model, replace(planted_question(), tokens=np.full((1, 12), 16)), CONFIG)
    with pytest.raises(ValueError, match="batch_size must be at least 1, not 0"):
        AttentionMassConfig(batch_size=0)


@pytest.mark.parametrize("attention", ["softmax", "v2"])
def test_a_head_whose_scores_are_no_numbers_has_no_shares(attention):
    model = planted(attention, ANSWER)
    with torch.no_grad():
        model.model.layers[0].self_attn.k_proj.weight.fill_(math.nan)
    result = measure(model, planted_question(), CONFIG)
    assert {value for head in result.heads for value in asdict(head.of_values).values()} == {None}
    assert (result.summary.best, result.summary.best_mass) == (None, None)
