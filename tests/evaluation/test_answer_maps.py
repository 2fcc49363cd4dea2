"""The maps at an answer's query: planted ones exactly, random ones as eager attention gives them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from diffattn.evaluation.answer_maps import measure
from diffattn.evaluation.recorded_scores import learned_sinks
from diffattn.tasks import TokenExamples
from loud_models import OURS, foreign, ours, tokens
from planted_models import ANSWER, ASKED, DECOY, FILLER, LAM, lambdas, planted

ASKED_AT, ANSWER_AT, DECOY_AT, LENGTH = 8, 3, 5, 12


def question(rows, queries, sources):
    queries, sources = np.array(queries), np.array(sources)
    none = np.full((*queries.shape, 0), -1)
    return TokenExamples(
        tokens=rows, queries=queries, answers=queries, sources=sources, false_answers=none, depths=sources / 1.0
    )


def planted_question():
    row = np.full((1, LENGTH), FILLER)
    row[0, ANSWER_AT], row[0, DECOY_AT], row[0, ASKED_AT] = ANSWER, DECOY, ASKED
    return question(row, [[ASKED_AT]], [[ANSWER_AT]])


def one_hot(at):
    return [float(place == at) for place in range(LENGTH)]


def test_planted_softmax():
    found = measure(planted("softmax", ANSWER), planted_question())
    assert (found.layer, found.head, found.answer) == (0, 0, ANSWER_AT)
    assert found.first == pytest.approx(one_hot(ANSWER_AT))
    assert found.second is found.signed is found.lam is None
    assert json.loads(json.dumps(found.to_dict()))["answer"] == ANSWER_AT


@pytest.mark.parametrize("attention", ["v1", "v2"])
def test_planted_difference(attention):
    found = measure(planted(attention, ANSWER, DECOY), planted_question())
    assert found.first == pytest.approx(one_hot(ANSWER_AT))
    assert found.second == pytest.approx(one_hot(DECOY_AT))
    assert found.lam == pytest.approx(LAM[attention])
    signed = [a - LAM[attention] * b for a, b in zip(one_hot(ANSWER_AT), one_hot(DECOY_AT), strict=True)]
    assert found.signed == pytest.approx(signed)


def test_the_head_that_gives_the_answer_most():
    model = planted("softmax", ANSWER)
    layer = model.model.layers[0].self_attn
    with torch.no_grad():  # head 0 looks at all keys alike, head 1 at the answer
        layer.q_proj.weight.view(2, layer.map_dim, -1)[0].zero_()
    assert measure(model, planted_question()).head == 1


def test_it_is_chosen_by_the_signed_map():
    model = planted("v2", ANSWER, ANSWER)
    layer = model.model.layers[0].self_attn
    with torch.no_grad():  # head 0's lambda is nearly 1: nothing is left of its answer
        for parameter in lambdas(layer):
            parameter.view(2, -1)[0, ASKED] = 30.0
    found = measure(model, planted_question())
    assert (found.head, found.lam) == (1, pytest.approx(0.5))


@pytest.mark.parametrize("name", [*OURS, "mistral", "gpt_oss"])
def test_random_models_against_their_eager_maps(name):
    model = ours(name) if name in OURS else foreign(name)
    model.set_attn_implementation("eager")
    rows, query, answer = tokens(), 17, 15
    with torch.no_grad():
        maps = model(rows[1:], output_attentions=True, use_cache=False).attentions
    used = torch.stack(list(maps))[:, 0, :, query].double()
    shares = used.abs()[..., answer] / used.abs().sum(-1)
    layer, head = divmod(int(shares.argmax()), shares.shape[1])
    # The first sequence's question has no answer.
    found = measure(model, question(rows.numpy(), [[20], [query]], [[-1], [answer]]))
    assert (found.layer, found.head) == (layer, head)
    np.testing.assert_allclose(found.signed or found.first, used[layer, head], rtol=1e-4, atol=2e-6)
    if found.signed:
        whole = np.array(found.first) - found.lam * np.array(found.second)
        np.testing.assert_allclose(found.signed, whole, atol=1e-12)
        assert (sum(found.first), sum(found.second)) == pytest.approx((1, 1))


def test_a_learned_sinks_share_goes_to_no_key():
    model = foreign("gpt_oss")
    with torch.no_grad():
        for layer in model.model.layers:
            learned_sinks(layer.self_attn).fill_(60.0)
    assert sum(measure(model, question(tokens().numpy(), [[20], [17]], [[3], [4]])).first) < 1e-6


def test_a_question_needs_an_answer():
    with pytest.raises(ValueError, match="expected a question that has an answer"):
        measure(planted("softmax"), question(np.full((1, LENGTH), FILLER), [[5]], [[-1]]))
