"""Measures by name: each model gets those that it allows, and the headlines say what their results hold."""

from __future__ import annotations

import json
import math

import pytest
import torch

from diffattn.data import load_corpus, prepare
from diffattn.errors import UserError
from diffattn.experiments.headlines import headlines
from diffattn.experiments.inspection import (
    DIFFERENTIAL,
    MEASURES,
    attention_on_needles,
    inspect_model,
    needles_found,
)
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.report.wording import MISSING
from diffattn.storage import to_json
from small_models import build, llama, tokens

BATCH = tokens(3, 32).numpy()


@pytest.fixture(scope="module")
def measured():
    return {attention: inspect_model(build(attention), BATCH, list(MEASURES)) for attention in ("softmax", "v1", "v2")}


def test_measures_of_the_subtraction_are_left_out_of_other_models(measured):
    assert set(measured["softmax"]) == set(MEASURES) - set(DIFFERENTIAL)
    assert set(measured["v1"]) == set(measured["v2"]) == set(MEASURES)


@pytest.mark.parametrize("attention", ["softmax", "v1", "v2"])
def test_every_measure_is_json_and_has_headlines_that_repeat_it(measured, attention):
    stored = json.loads(to_json(measured[attention]))
    lines = headlines(stored)
    assert {name for name, _, _ in lines} == set(stored)
    said = {(name, what): value for name, what, value in lines}
    largest = stored["outliers"]["logits"]["largest"][0]
    assert float(said["outliers", "attention logit, number 1 by size"].replace(",", "")) == pytest.approx(
        largest, rel=1e-3
    )
    norm = float(said["gradient_norms", "norm of all parameters"].replace(",", ""))
    parts = [v for (name, what), v in said.items() if name == "gradient_norms" and what != "norm of all parameters"]
    assert math.hypot(*(float(part.replace(",", "")) for part in parts)) == pytest.approx(norm, rel=2e-3)


def test_a_lambda_of_nothing_is_silent_and_its_switching_off_costs_nothing():
    model = build("v2", lambda_granularity="fixed", lambda_init=0.0)
    found = inspect_model(model, BATCH, ["switch_off", "dead_pairs", "lambda_values"])
    lines = {(name, what): value for name, what, value in headlines(found)}
    assert lines["lambda_values", "largest size"] == "0"
    assert lines["dead_pairs", "silent pairs"] == "24 of 24"
    assert lines["switch_off", "loss added, lambda zero, all heads"].startswith("0.0000")
    assert lines["switch_off", "heads without whose lambda the loss is higher, interval above 0"] == "0 of 16"


@pytest.mark.parametrize("attention", ["v1", "v2"])
def test_a_model_that_diverged_has_words_instead_of_numbers(attention):
    model = build(attention)
    with torch.no_grad():
        model.model.embed_tokens.weight[BATCH[0, 7]] = math.nan
    lines = headlines(inspect_model(model, BATCH, list(MEASURES)))
    fixed = {"lambda_values"} if attention == "v1" else set()  # V1's lambda is not of tokens
    assert {value for name, _, value in lines if name not in fixed} <= {"diverged", MISSING}


def test_one_sequence_has_no_intervals_and_no_count_of_them():
    lines = {what: value for _, what, value in headlines(inspect_model(build("v2"), BATCH[:1], ["switch_off"]))}
    assert lines["heads without whose lambda the loss is higher, interval above 0"] == MISSING


@pytest.mark.parametrize("names", [["outliers", "nothing"], []])
def test_an_unknown_measure_is_named_with_those_that_there_are(names):
    with pytest.raises(UserError, match=r"there is no measure '(nothing)?': use some of outliers, context_rms"):
        inspect_model(build("softmax"), BATCH, names)


def test_attention_on_needles_of_a_model_that_attends_evenly(corpus_folder, tmp_path):
    data = prepare(load_corpus(corpus_folder), vocab_size=300, folder=tmp_path, progress=False)
    config = DiffTransformerConfig.from_baseline(llama(), "v2", vocab_size=data.vocab_size, rotary=False)
    model = DiffTransformerForCausalLM(config).eval()
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.k_proj.weight.zero_()
    found = attention_on_needles(model, data.tokenizer, 700, 3)
    lines = {what: value for _, what, value in headlines({"attention": found})}
    assert found["answerable"] == 3
    # Maps are even, so a head's signed map is (1 - lambda) / n: shares of its size are those of a softmax map.
    assert 0 < found["summary"]["mean"]["answer_share"] < 0.1
    assert found["summary"]["mean"]["sink_share"] == pytest.approx(1 / 650, rel=0.2)
    assert float(lines["entropy of the first map, nats"]) == pytest.approx(math.log(650), rel=0.03)
    assert lines["negative mass"] == "0"


def test_needles_are_asked_for_at_every_depth_and_at_the_lengths_that_fit(corpus_folder, tmp_path):
    data = prepare(load_corpus(corpus_folder), vocab_size=300, folder=tmp_path, progress=False)
    config = DiffTransformerConfig.from_baseline(llama(), "softmax", vocab_size=data.vocab_size)
    model = DiffTransformerForCausalLM(config).eval()
    found = needles_found(model, data.tokenizer, 1500, 2)
    assert found["lengths"] == [375, 750, 1500]
    assert found["numbers"] is None
    lines = headlines({"needles": found})
    assert len(lines) == 3 * 5
    # A random model says none of the numbers; Wilson's interval of none of two.
    assert lines[0] == ("needles", "found at 375 tokens, depth 0%", "0% (0% to 65.8%)")
    shortest = needles_found(model, data.tokenizer, 400, 1)
    assert shortest["lengths"] == [400], "half has no room for the needle"
    with pytest.raises(UserError, match="give a length of that or more"):
        needles_found(model, data.tokenizer, 200, 1)
