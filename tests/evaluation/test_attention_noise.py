"""The whole measure: what it reports follows from the probes' scores, and the model is left as it was."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from diffattn.data import Corpus, EncodedCorpus, PreparedData, load_corpus, prepare
from diffattn.errors import UserError
from diffattn.evaluation import attention_noise
from diffattn.evaluation.attention_noise import AttentionNoiseConfig, measure
from diffattn.evaluation.head_estimates import estimate, head_result
from diffattn.evaluation.head_results import Estimate
from diffattn.evaluation.probe_runs import ProbeRuns
from diffattn.evaluation.repeat_probes import make_probes
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.planning.noise_model import NoiseModel, margin_for_noise_mass
from diffattn.training import load_pretrained

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
BODY = {
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "attention_dropout": 0.5,
}
CONFIG = AttentionNoiseConfig(lengths=(20, 33), depths=(0.0, 0.5, 1.0), probes=3, span=5)


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> PreparedData:
    """Random words, so that stretches are unique."""
    choice = np.random.default_rng(0)
    splits = {
        split: [" ".join("".join(choice.choice(list("abcdefgh"), 4)) for _ in range(150))]
        for split in ("train", "validation", "test")
    }
    return prepare(Corpus("words", splits), vocab_size=300, folder=tmp_path_factory.mktemp("words"), progress=False)


def loud(model):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.3)
    return model.train()


def llama(data, **fields):
    return loud(LlamaForCausalLM(LlamaConfig(vocab_size=data.vocab_size, **{**BODY, **fields})))


def ours(data, attention):
    baseline = LlamaConfig(vocab_size=data.vocab_size, **BODY)
    return loud(DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(baseline, attention)))


def assert_close(estimate, values, log=False):
    assert estimate.mean == pytest.approx(
        math.exp(np.log(values).mean()) if log else np.mean(values), rel=1e-4, abs=1e-6
    )
    assert estimate.low < estimate.mean < estimate.high


def eager_weights(model, probes, layer):
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model.eval()(torch.from_numpy(probes.tokens), output_attentions=True, use_cache=False).attentions
    return maps[layer][:, :, -1].double().numpy()


def test_a_llamas_heads_are_those_of_its_eager_maps(words):
    model = llama(words)
    result = measure(model, words, CONFIG).lengths[1]
    assert (result.length, result.probes, len(result.heads)) == (33, 9, 8)
    assert [(head.layer, head.head) for head in result.heads] == [(i, j) for i in range(2) for j in range(4)]
    probes = make_probes(words, "test", 33, CONFIG.depths, 3, 5, seed=0)
    rows, everyone = np.arange(9), np.arange(33)
    for head in result.heads:
        weights = eager_weights(model, probes, head.layer)[:, head.head]
        noise = [[k for k in everyone if k not in (0, answer, 32)] for answer in probes.answers]
        others = np.take_along_axis(weights, np.array(noise), 1)
        answers, first = weights[rows, probes.answers], head.first
        assert (head.probes, head.noise_keys) == (9, 30)
        assert_close(first.margin, np.log(answers) - np.log(others).mean(1))
        assert_close(first.strength, np.log(others).std(1))
        assert_close(first.effective_strength, np.sqrt(2 * (np.log(others.mean(1)) - np.log(others).mean(1))))
        assert_close(first.answer_mass, answers)
        assert_close(first.sink_mass, weights[:, 0])
        assert_close(first.rest_mass, 1 - answers - weights[:, 0])
        assert_close(first.signal_to_noise, answers / others.mean(1), log=True)
        assert first.largest == np.mean(answers > np.maximum(others.max(1), weights[:, -1]))
        assert head.second is head.signed is None


@pytest.mark.parametrize("attention", ["v1", "v2"])
def test_a_differential_heads_signed_map_is_the_models_own(words, attention):
    model = ours(words, attention)
    result = measure(model, words, CONFIG).lengths[0]
    probes = make_probes(words, "test", 20, CONFIG.depths, 3, 5, seed=0)
    assert len(result.heads) == {"v1": 4, "v2": 8}[attention]
    for head in result.heads:
        weights = eager_weights(model, probes, head.layer)[:, head.head]
        signed, answers = head.signed, weights[np.arange(9), probes.answers]
        assert_close(signed.answer_weight, answers)
        assert_close(signed.absolute_mass, np.abs(weights).sum(1))
        assert_close(signed.negative_mass, -np.minimum(weights, 0).sum(1))
        assert_close(signed.sink_mass, np.abs(weights[:, 0]))
        assert signed.lam.mean == pytest.approx(1 - weights.sum(1).mean(), abs=1e-5)
        assert head.answer_mass == signed.answer_weight.mean
        assert head.first.answer_mass.mean != head.second.answer_mass.mean
        assert -1 < signed.correlation.mean < 1
        ratio = signed.signal_to_noise.mean / head.first.signal_to_noise.mean
        assert signed.gain.mean == pytest.approx(ratio)
        fitted = signed.fitted_signal_to_noise.mean / head.first.signal_to_noise.mean
        assert signed.fitted_gain.mean == pytest.approx(fitted)


def columns(margin, strength, **more):
    count = len(margin)
    zeros = dict.fromkeys(("answer_mass", "sink_mass", "rest_mass", "log_signal_to_noise"), np.zeros(count))
    strengths = {"strength": np.array(strength), "effective_strength": np.array(strength) / 2}
    return {**zeros, **strengths, "margin": np.array(margin), "largest": np.ones(count), **more}


def test_the_closed_form_is_the_planners():
    first, second = columns([3.0, 5.0], [1.0, 1.2]), columns([0.5, 0.0], [0.8, 1.0])
    names = ("answer_weight", "sink_mass", "rest_mass", "absolute_mass", "negative_mass", "log_signal_to_noise")
    signed = {**dict.fromkeys(names, np.zeros(2)), "correlation": np.array([0.5, 0.9]), "lam": np.array([0.3, 0.6])}
    signed["largest"] = np.array([1.0, 0.0])
    maps = {"first": first, "second": second, "signed": signed}
    head = head_result(2, 5, maps, noise_keys=1000, correlations=(0.0, 0.9))
    models = [
        NoiseModel(length=1001, margin=3, strength=1, second_margin=0.5, second_strength=0.8, correlation=0.5),
        NoiseModel(length=1001, margin=5, strength=1.2, second_margin=0, second_strength=1, correlation=0.9),
    ]
    halves = [replace(model, strength=model.strength / 2, second_strength=model.s2 / 2) for model in models]
    closed, fitted = ([m[0].signal_to_noise(0.3), m[1].signal_to_noise(0.6)] for m in (models, halves))
    assert head.first.closed_signal_to_noise.mean == pytest.approx(math.exp((3 - 0.5 + 5 - 0.72) / 2))
    assert head.signed.closed_signal_to_noise.mean == pytest.approx(math.sqrt(closed[0] * closed[1]))
    assert head.signed.fitted_signal_to_noise.mean == pytest.approx(math.sqrt(fitted[0] * fitted[1]))
    assert head.finds_answer
    assert head.margin_needed == pytest.approx(margin_for_noise_mass(1001, 0.55))
    for possible, correlation in zip(head.possible_gains, (0.0, 0.9), strict=True):
        model = NoiseModel(length=1001, margin=4, strength=1.1, correlation=correlation)
        assert (possible.correlation, possible.lam) == pytest.approx((correlation, model.best_lambda()))
        assert possible.gain == pytest.approx(model.gain(model.best_lambda()))
        half = replace(model, strength=0.55)
        assert possible.fitted_lam == pytest.approx(half.best_lambda())
        assert possible.fitted_gain == pytest.approx(half.gain(half.best_lambda()))
    assert head.possible_gains[1].gain > head.possible_gains[0].gain > 1
    assert head.closed_form_holds
    signed["largest"] = np.zeros(2)
    assert not head_result(2, 5, maps, noise_keys=1000, correlations=(0.0,)).finds_answer
    assert not head_result(
        2, 5, {"first": columns([3.0], [3.0])}, noise_keys=100, correlations=(0.0,)
    ).closed_form_holds


def test_scores_that_no_closed_form_takes_still_give_numbers():
    flat = head_result(0, 0, {"first": columns([0.0, 0.0], [0.0, 0.0])}, noise_keys=9, correlations=(0.5,))
    assert flat.first.closed_signal_to_noise.mean == pytest.approx(1)
    for margin, strength in ((5000.0, 1e-9), (-5000.0, 1.0), (5000.0, 90.0), (-5000.0, 90.0)):
        maps = {"first": columns([margin] * 2, [strength] * 2), "second": columns([-margin] * 2, [strength] * 2)}
        maps["signed"] = {**maps["first"], "correlation": np.array([1.0, -1.0]), "lam": np.array([0.5, 1.5])}
        maps["signed"] |= dict.fromkeys(("answer_weight", "absolute_mass", "negative_mass"), np.zeros(2))
        far = head_result(0, 0, maps, noise_keys=10**6, correlations=(-1.0, 0.5))
        assert not far.closed_form_holds or strength < 24
        json.dumps(asdict(far), allow_nan=False)


def test_estimates_are_t_intervals():
    values = np.array([1.0, 4.0, 2.5, 3.0])
    low, high = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
    plain, ratio = estimate(values), estimate(values, log=True)
    assert (plain.mean, plain.low, plain.high) == pytest.approx((values.mean(), low, high))
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx(tuple(np.exp((values.mean(), low, high))))
    assert estimate(values[:1]) == Estimate(mean=1.0, low=None, high=None)


def test_a_layer_that_does_not_see_the_answer_is_left_out(words):
    fields = {**BODY, "sliding_window": 12}
    model = loud(MistralForCausalLM(MistralConfig(vocab_size=words.vocab_size, **fields)))
    near = AttentionNoiseConfig(lengths=(33,), depths=(0.0, 1.0), probes=2, span=5)
    heads = measure(model, words, near).lengths[0].heads
    assert {(head.probes, head.noise_keys) for head in heads} == {(2, 10)}  # only depth 1, and not the first token
    assert all(head.first.sink_mass.mean == 0 for head in heads)
    far = AttentionNoiseConfig(lengths=(33,), depths=(0.0,), probes=2, span=5)
    blind = measure(model, words, far).lengths[0]
    assert blind.heads == ()
    assert blind.summary.finding == ()
    assert blind.summary.margin is None


def test_the_summary_is_of_the_heads_that_find_the_answer(words, monkeypatch):
    model = llama(words)
    original = attention_noise.head_result

    def finding(layer, head, *args, **kwargs):
        result = original(layer, head, *args, **kwargs)
        object.__setattr__(result, "finds_answer", (layer, head) in {(0, 1), (1, 2), (1, 3)})
        return result

    monkeypatch.setattr(attention_noise, "head_result", finding)
    result = measure(model, words, CONFIG).lengths[0]
    chosen = [result.heads[i] for i in (1, 6, 7)]
    summary = result.summary
    assert (summary.heads, summary.finding) == (8, ((0, 1), (1, 2), (1, 3)))
    assert summary.margin == sorted(head.first.margin.mean for head in chosen)[1]
    assert summary.strength == sorted(head.first.strength.mean for head in chosen)[1]
    assert summary.effective_strength == sorted(head.first.effective_strength.mean for head in chosen)[1]
    assert summary.answer_mass == sorted(head.first.answer_mass.mean for head in chosen)[1]
    assert summary.rest_mass == sorted(head.first.rest_mass.mean for head in chosen)[1]
    assert summary.signal_to_noise == sorted(head.first.signal_to_noise.mean for head in chosen)[1]
    assert summary.margin_needed == sorted(head.margin_needed for head in chosen)[1]
    assert summary.possible_gains[2] == sorted(head.possible_gains[2].fitted_gain for head in chosen)[1]
    assert summary.gain is None


def test_results_follow_from_the_seed_and_not_from_the_batch(words):
    model = llama(words)

    def numbers(**changes):
        config = AttentionNoiseConfig(**{**vars(CONFIG), **changes})
        heads = [head for length in measure(model, words, config).lengths for head in length.heads]
        return np.array([[head.first.margin.mean, head.first.strength.mean] for head in heads])

    assert (numbers() == numbers()).all()
    np.testing.assert_allclose(numbers(batch_size=7), numbers(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(numbers(lengths=(33,)), numbers()[8:])
    assert np.abs(numbers(seed=1) - numbers()).max() > 1e-2


def test_the_model_is_left_as_it_was_and_the_result_is_json(words):
    model = ours(words, "v2")
    result = measure(model, words, CONFIG)
    assert model.training
    assert model.config._attn_implementation == "diffattn"
    written = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert written["config"]["lengths"] == [20, 33]
    assert written["lengths"][1]["heads"][0]["signed"]["lam"]["mean"] == result.lengths[1].heads[0].signed.lam.mean


def test_layers_that_do_not_know_their_number_are_counted(words):
    known, unknown = llama(words), llama(words)
    for layer in unknown.model.layers:
        del layer.self_attn.layer_idx
    assert measure(unknown, words, CONFIG) == measure(known, words, CONFIG)


def test_copied_is_the_share_of_probes_whose_next_token_is_predicted(words):
    model = llama(words).eval()
    tokens = make_probes(words, "test", 20, (0.5,), 4, 5, seed=0).tokens
    with torch.no_grad():
        predicted = model(torch.from_numpy(tokens)).logits[:, -1].argmax(-1).numpy()
    answers = np.full(4, 9)
    runs = ProbeRuns(model)
    runs.add(tokens, answers)
    assert runs.copied == np.mean(predicted == tokens[:, 9])
    with torch.no_grad():
        hidden = model.base_model(torch.from_numpy(tokens)).last_hidden_state[0, -1]
    model.lm_head.weight.data[tokens[0, 9]] = 100 * hidden
    runs.add(tokens[:1], answers[:1])
    assert runs.copied == (4 * np.mean(predicted == tokens[:, 9]) + 1) / 5


def test_what_cannot_be_measured(words):
    model = llama(words)
    with pytest.raises(UserError, match="a probe of 65 tokens is longer than the model's 64"):
        measure(model, words, AttentionNoiseConfig(lengths=(65,)))
    model.config.max_position_embeddings = 10**6
    with pytest.raises(UserError, match="too few for 8 probes of 100,000"):
        measure(model, words, AttentionNoiseConfig(lengths=(100_000,)))
    small = LlamaForCausalLM(LlamaConfig(vocab_size=50, **BODY))
    with pytest.raises(UserError, match="the model knows 50 tokens, the corpus has others"):
        measure(small, words, CONFIG)
    with pytest.raises(UserError, match="no split 'tests'"):
        measure(model, words, AttentionNoiseConfig(lengths=(20,), split="tests"))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"lengths": ()}, "lengths must be 18 or more"),
        ({"lengths": (17,)}, "lengths must be 18 or more"),
        ({"lengths": (30, 30)}, "none twice"),
        ({"depths": (0.5, 1.5)}, "depths must be numbers from 0 to 1"),
        ({"correlations": (1.0,)}, "correlations must be"),
        ({"probes": 0}, "probes must be at least 1"),
        ({"span": 0}, "span must be at least 1"),
        ({"seed": -1}, "seed must be 0 or more"),
    ],
)
def test_config_is_validated(fields, match):
    with pytest.raises(ValueError, match=match):
        AttentionNoiseConfig(**{"lengths": (64,), **fields})


def test_a_pretrained_model_with_its_own_tokenizer():
    if not (SHARED / "stories260k").is_dir():
        pytest.skip(f"no pretrained model in {SHARED}")
    loaded = load_pretrained(SHARED / "stories260k")
    corpus = EncodedCorpus(loaded.tokenizer, load_corpus(SHARED / "wikitext-2"))
    result = measure(loaded.model, corpus, AttentionNoiseConfig(lengths=(64, 512), probes=2)).lengths[1]
    assert len(result.heads) == 40
    for head in result.heads:
        total = head.first.answer_mass.mean + head.first.sink_mass.mean + head.first.rest_mass.mean
        assert total == pytest.approx(1)
