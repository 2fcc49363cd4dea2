from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel

from diffattn.errors import UserError
from diffattn.evaluation.rates import wilson
from diffattn.evaluation.retrieval import RetrievalConfig, embed, measure, measure_grid
from diffattn.tasks import TokenExamples
from loud_models import FOREIGN, loud
from planted_finder import KEYS, NONE, VALUES, VOCABULARY, examples, fact, finder, question, value


def drawn(rows=11, facts=6, questions=3, seed=0):
    draws = np.random.default_rng(seed)
    keys = [draws.permutation(KEYS)[:facts] for _ in range(rows)]
    pairs = [[(int(key), int(draws.integers(VALUES))) for key in row] for row in keys]
    return pairs, draws.integers(KEYS, size=(rows, questions)).tolist()


@pytest.mark.parametrize("attention", ["softmax", "v2"])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_a_model_that_finds_every_fact(attention, batch_size):
    data = examples(*drawn())
    assert 0 < data.answerable.sum() < data.answerable.size
    rates = measure(finder(attention), data, RetrievalConfig(batch_size=batch_size)).rates
    assert (rates.accuracy.share, rates.fabrication.share, rates.refusal.share) == (1, 0, 0)
    assert rates.accuracy.questions == data.answerable.sum()
    assert rates.fabrication.questions == (~data.answerable).sum()
    assert rates.false_citation.questions == 0
    assert not rates.diverged


def test_a_model_that_attends_to_everything_alike_gives_the_commonest_value():
    pairs, asked = drawn(rows=40)
    data = examples(pairs, asked)
    hits = []
    for row, keys in zip(pairs, asked, strict=True):
        counts = (
            np.bincount([index for _, index in row], minlength=VALUES) / 2**0.5
        )  # a fact's value is a channel of two
        commonest = NONE if counts.max() < 0.5 else value(int(counts.argmax()))
        hits += [commonest == value(dict(row)[key]) for key in keys if key in dict(row)]
    rates = measure(finder(sharp=False), data, RetrievalConfig()).rates
    assert 0.2 < np.mean(hits) < 0.8
    assert rates.accuracy.share == np.mean(hits)
    assert rates.fabrication.share == 1


def test_each_rate_by_hand():
    facts = [[(0, 3), (1, 5), (2, 7)]] * 4
    data = examples(facts, [[0, 1, 6], [2, 7, 0], [1, 1, 2], [5, 6, 7]])
    answers = data.answers.copy()
    answers[0, 0] = value(6)  # the model says 3
    answers[1, 1] = value(2)  # no fact, and the model says so, but the right answer is held to be another token
    false = np.full((4, 3, 2), -1)
    false[0, 0], false[0, 1], false[3, 2] = (value(3), value(1)), (value(1), -1), (value(4), -1)
    sources = data.sources.copy()
    sources[1, 1] = 1
    data = replace(data, answers=answers, false_answers=false, sources=sources)
    rates = measure(finder(), data, RetrievalConfig(depths=())).rates
    # 8 with a source, of which 0,0 and 1,1 are wrong, the latter said NONE; 4 without
    assert (rates.accuracy.share, rates.accuracy.questions, rates.accuracy.sequences) == (6 / 8, 8, 3)
    assert (rates.refusal.share, rates.refusal.questions) == (1 / 8, 8)
    assert (rates.fabrication.share, rates.fabrication.questions, rates.fabrication.sequences) == (0, 4, 2)
    assert (rates.false_citation.share, rates.false_citation.questions) == (pytest.approx(1 / 3), 3)


def test_accuracy_by_depth_and_the_grid():
    short = examples([[(0, 1), (1, 1), (2, 1)]] * 3, [[0], [1], [2]])
    long = examples([[(key, 2) for key in (0, 1, 2, 3, 4)]] * 5, [[0], [1], [2], [3], [4]])
    wrong = long.answers.copy()
    wrong[1] = value(7)  # at depth 1/4, as near to 0 as to 1/2: counted at 0
    config = RetrievalConfig(depths=(0.0, 0.5, 1.0))
    grid = measure_grid(finder(), {7: replace(long, answers=wrong), 5: short}, config)
    assert (grid.lengths, grid.depths) == ((5, 7), (0.0, 0.5, 1.0))
    assert [[cell.share for cell in row] for row in grid.cells] == [[1, 1, 1], [0.5, 1, 1]]
    assert [[cell.questions for cell in row] for row in grid.cells] == [[1, 1, 1], [2, 2, 1]]
    assert (grid.cells[0][0].low, grid.cells[1][0].low) == (None, pytest.approx(wilson(0.5, 2)[0]))
    assert json.loads(json.dumps(grid.to_dict()))["cells"][1][0]["share"] == 0.5


def test_no_logits_but_those_of_the_questions():
    model, shapes = finder(), []
    model.lm_head.register_forward_hook(lambda *given: shapes.append(given[2].shape))
    measure(model, examples(*drawn(rows=5)), RetrievalConfig(batch_size=3))
    assert shapes == [(3, 3, VOCABULARY), (2, 3, VOCABULARY)]


def test_a_model_that_diverged_has_no_rates():
    model = finder()
    model.lm_head.weight.data[5, 3] = float("nan")
    result = measure(model, examples(*drawn()), RetrievalConfig())
    rates = result.rates
    assert rates.diverged
    assert result.loss is None
    assert (rates.accuracy.share, rates.accuracy.low, rates.fabrication.share) == (None, None, None)
    assert rates.accuracy.questions > 0


def test_without_unanswerable_questions_nothing_says_what_a_refusal_is():
    data = examples([[(0, 3)]] * 2, [[0], [0]])
    assert measure(finder(), data, RetrievalConfig()).rates.refusal is None
    said = measure(finder(), data, RetrievalConfig(none_token=value(3))).rates.refusal
    assert (said.share, said.questions) == (1, 2)


def test_embeddings_normalised_and_noisy_by_hand():
    model, tokens = finder(), torch.tensor([[fact(1, 2), question(3), NONE]])
    plain = embed(model, tokens, normalised=False)
    assert torch.equal(plain, model.model.embed_tokens(tokens))
    even = embed(model, tokens, normalised=True)
    torch.testing.assert_close(even.square().mean(-1)[0], torch.tensor([1.0, 1.0, 0.0]))  # NONE's embedding is zero
    torch.testing.assert_close(even[:, :2], plain[:, :2] * 40**0.5)
    noisy = embed(model, tokens, normalised=True, sigma=0.25, generator=torch.Generator().manual_seed(5))
    noise = torch.randn(even.shape, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(noisy, even + 0.25 * noise)
    noisy.sum().backward()
    assert model.model.embed_tokens.weight.grad.abs().sum() > 0
    with pytest.raises(ValueError, match="sigma: expected a finite number, 0 or more, got -1"):
        embed(model, tokens, normalised=True, sigma=-1)


def test_noise_lowers_accuracy_and_does_not_depend_on_the_batch():
    data = examples(*drawn(rows=40))
    shares = [
        measure(finder(), data, RetrievalConfig(normalised_embeddings=True, embedding_noise=s)).rates
        for s in (0, 4, 40)
    ]
    accuracies = [rates.accuracy.share for rates in shares]
    assert accuracies[0] == 1 > accuracies[1] > accuracies[2]
    config = RetrievalConfig(embedding_noise=1.0, seed=7)
    whole, single = (measure(finder(), data, replace(config, batch_size=size)).rates for size in (40, 1))
    assert whole == single
    assert whole != measure(finder(), data, replace(config, seed=8)).rates


def test_any_causal_model_and_the_mode_it_had():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_head=4, n_layer=2, n_positions=16)).train()
    data = examples(*drawn(rows=7))
    with torch.no_grad():
        logits = model.eval()(torch.from_numpy(data.tokens)).logits
    predicted = logits.argmax(-1).gather(1, torch.from_numpy(data.queries)).numpy()
    result = measure(model.train(), data, RetrievalConfig(batch_size=3))
    right = (predicted == data.answers)[data.answerable]
    assert result.rates.accuracy.share == right.mean()
    rows = torch.arange(7)[:, None]
    losses = -logits.double().log_softmax(-1)[rows, torch.from_numpy(data.queries), torch.from_numpy(data.answers)]
    assert result.loss == pytest.approx(losses.mean().item(), rel=1e-5)
    assert model.training
    with pytest.raises(UserError, match="a sequence of 18 tokens is longer than the model's 16"):
        measure(model, examples(*drawn(facts=8, questions=9)), RetrievalConfig())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"depths": (0.5, 0.25)}, "depths must be numbers from 0 to 1, rising"),
        ({"depths": (0.5, 1.25)}, "depths must be numbers from 0 to 1, rising"),
        ({"embedding_noise": float("nan")}, "embedding_noise must be 0 or more"),
        ({"seed": -1}, "seed must be 0 or more"),
    ],
)
def test_configurations_that_cannot_be(fields, message):
    with pytest.raises(ValueError, match=message):
        RetrievalConfig(**fields)


def test_the_loss_is_that_of_the_models_own_logits_whatever_it_does_to_them():
    """Gemma 2 bounds its logits behind the output matrix, which changes losses and not which is the largest."""
    config = {**FOREIGN["gemma2"][2], "final_logit_softcapping": 0.5}
    model = loud(Gemma2ForCausalLM(Gemma2Config(**config)))
    tokens = np.random.default_rng(0).integers(1, 60, (3, 9))
    queries, answers = np.array([[8, 2]] * 3), np.array([[4, 5], [6, 7], [8, 9]])
    places = np.zeros_like(queries)
    data = TokenExamples(
        tokens=tokens, queries=queries, answers=answers, sources=places, false_answers=places[..., None] - 1,
        depths=places.astype(float),
    )  # fmt: skip
    with torch.no_grad():
        logs = model(torch.from_numpy(tokens)).logits.double().log_softmax(-1).numpy()
    expected = -np.take_along_axis(logs[np.arange(3)[:, None], queries], answers[..., None], -1).mean()
    assert measure(model, data, RetrievalConfig(batch_size=2)).loss == pytest.approx(expected, rel=1e-5)
