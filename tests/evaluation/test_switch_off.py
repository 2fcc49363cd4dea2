from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import LlamaConfig

from diffattn.evaluation.effects import Sample, effect, scores
from diffattn.evaluation.interventions import lambda_zero
from diffattn.evaluation.retrieval import RetrievalConfig
from diffattn.evaluation.sequence_losses import sequence_losses
from diffattn.evaluation.switch_off import SwitchOffConfig, measure
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from planted_finder import examples, finder


def drawn(attention):
    torch.manual_seed(0)
    body = LlamaConfig(vocab_size=40, hidden_size=16, intermediate_size=12, num_hidden_layers=3, num_attention_heads=4)
    model = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(body, attention, map_dim=4))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.5)
    return model.train()


TOKENS = np.random.default_rng(0).integers(0, 40, size=(6, 11))


def test_each_row_is_the_model_with_that_intervention():
    model = drawn("v2")
    before = sequence_losses(model, TOKENS)
    result = measure(model, Sample(tokens=TOKENS), SwitchOffConfig(most_heads=5))
    assert (result.heads, result.heads_alone, result.left_out) == (12, 5, ())
    assert result.loss == pytest.approx(before.mean(), rel=1e-12)
    places = [(row.layer, row.head) for row in result.rows if row.intervention == "lambda_zero"]
    assert places == [(None, None), (0, 0), (0, 2), (1, 0), (1, 3), (2, 1)]
    assert len(result.rows) == 3 * 6
    for place, row in zip(places, result.rows, strict=False):
        with lambda_zero(model, None if place == (None, None) else [place]):
            differences = sequence_losses(model, TOKENS) - before
        found = row.effect.loss_difference
        assert found.mean == pytest.approx(differences.mean(), rel=1e-9)
        half = 2.570582 * differences.std(ddof=1) / 6**0.5  # t with 5 degrees of freedom
        assert (found.low, found.high) == pytest.approx((found.mean - half, found.mean + half), rel=1e-5)
    assert len({row.effect.loss for row in result.rows}) == len(result.rows)
    assert model.training
    assert np.array_equal(sequence_losses(model, TOKENS), before)


def test_v1_has_no_mean_of_its_own_to_be_set_to():
    result = measure(drawn("v1"), Sample(tokens=TOKENS), SwitchOffConfig(most_heads=0))
    assert result.left_out == ("lambda_mean",)
    assert [(row.intervention, row.head) for row in result.rows] == [("lambda_zero", None), ("uniform_noise_map", None)]
    assert json.loads(json.dumps(result.to_dict()))["rows"][0]["effect"]["loss_difference"]["mean"] != 0


def test_a_model_that_finds_everything_by_its_noise_map_alone_loses_it_all():
    """The signal map attends to all alike, the noise map to the fact of a value that is read off with a minus."""
    model = finder("v2")
    layer = model.model.layers[0].self_attn
    with torch.no_grad():
        signal, noise = layer.q_proj.weight.view(2, layer.map_dim, -1)
        noise.copy_(signal.clone())
        signal.zero_()
        layer.o_proj.weight.neg_()
    data = examples([[(key, (key + row) % 8) for key in range(5)] for row in range(4)], [[0, 3, 7]] * 4)
    result = measure(model, Sample(examples=data), SwitchOffConfig(interventions=("lambda_zero", "uniform_noise_map")))
    assert (result.loss, result.accuracy) == (None, 1)
    for row in result.rows:
        assert row.effect.loss is None
        assert row.effect.accuracy == 0
        assert row.effect.accuracy_difference.mean == -1
        assert row.effect.answer_loss_difference.mean > 1


def test_numbers_that_are_not_finite():
    model = drawn("v2")
    before = scores(model, Sample(tokens=TOKENS), RetrievalConfig())
    model.lm_head.weight.data[3, 3] = float("nan")
    after = scores(model, Sample(tokens=TOKENS), RetrievalConfig())
    broken = effect(before, after)
    assert (broken.diverged, broken.loss, broken.loss_difference) == (True, None, None)
    mended = effect(after, before)
    assert (mended.diverged, mended.loss_difference) == (False, None)
    assert mended.loss == pytest.approx(before.loss.mean())
    result = measure(model, Sample(tokens=TOKENS), SwitchOffConfig(most_heads=0))
    assert result.loss is None
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"interventions": ("lambda_zero", "lambda_one")}, "interventions must be of lambda_zero, lambda_mean"),
        ({"interventions": ()}, "one or more"),
        ({"most_heads": -1}, "most_heads must be 0 or more"),
    ],
)
def test_configurations_that_cannot_be(fields, message):
    with pytest.raises(ValueError, match=message):
        SwitchOffConfig(**fields)


def test_samples_that_cannot_be():
    with pytest.raises(ValueError, match="expected tokens, examples or both"):
        Sample()
    with pytest.raises(ValueError, match="expected an answerable question"):
        Sample(examples=examples([[(0, 1)]], [[3]]))
