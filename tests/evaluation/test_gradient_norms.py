"""Gradient norms are those of an ordinary backward through the whole model."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from diffattn.evaluation import _logits
from diffattn.evaluation.gradient_norms import GradientNormsConfig, measure
from loud_models import FOREIGN, LENGTH, OURS, foreign, ours, tokens

CONFIG = GradientNormsConfig(batch_size=1)
ATTENTION = {
    "softmax": {"q", "k", "v", "o"},
    "gated": {"q", "k", "v", "o", "gate"},
    "v1": {"q", "k", "v", "o", "lambda", "head_norm"},
    "v2": {"q", "k", "v", "o", "lambda"},
}
NAMES = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj", "gate": "attn.gate_proj", "lambda": "lambda_"}


def ordinary(model):
    """The loss, and each parameter's gradient, in the model's own way."""
    ids = tokens()
    loss = model.eval()(ids, labels=ids, use_cache=False).loss
    names, parameters = zip(*model.named_parameters(), strict=True)
    return loss.item(), dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def norm(gradients, wanted):
    return math.sqrt(sum(g.double().square().sum().item() for name, g in gradients.items() if wanted(name)))


@pytest.mark.parametrize("piece", [1, 61 * 5, 1 << 24])
@pytest.mark.parametrize("attention", OURS)
def test_our_models(attention, piece, monkeypatch):
    monkeypatch.setattr(_logits, "_PIECE", piece)
    model = ours(attention)
    loss, gradients = ordinary(model)
    result = measure(model, tokens().numpy(), CONFIG)
    assert result.loss == pytest.approx(loss, rel=1e-5)
    assert result.total == pytest.approx(norm(gradients, bool), rel=1e-4)
    assert set(result.outside) == {"embedding", "norm", "output"}
    assert result.outside["embedding"] == pytest.approx(gradients["model.embed_tokens.weight"].norm().item(), rel=1e-4)
    assert result.outside["output"] == pytest.approx(gradients["lm_head.weight"].norm().item(), rel=1e-4)
    assert result.outside["norm"] == pytest.approx(gradients["model.norm.weight"].norm().item(), rel=1e-4)
    for number, layer in enumerate(result.layers):
        here = {name: g for name, g in gradients.items() if f"layers.{number}." in name}
        assert set(layer) == {*ATTENTION[attention], "mlp", "norms"}
        assert layer["mlp"] == pytest.approx(norm(here, lambda name: ".mlp." in name), rel=1e-4)
        assert layer["norms"] == pytest.approx(norm(here, lambda name: "layernorm" in name), rel=1e-4)
        for part in ATTENTION[attention]:
            expected = norm(here, lambda name, part=part: NAMES.get(part, part) in name)
            assert layer[part] == pytest.approx(expected, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("name", FOREIGN)
def test_other_models(name):
    model = foreign(name)
    loss, gradients = ordinary(model)
    result = measure(model, tokens().numpy(), CONFIG)
    assert result.loss == pytest.approx(loss, rel=1e-5)
    assert result.total == pytest.approx(norm(gradients, bool), rel=1e-4)
    parts = [result.outside, *result.layers]
    assert math.sqrt(sum(value**2 for part in parts for value in part.values())) == pytest.approx(result.total)
    expected = {"qwen3": "qk_norm", "gpt_oss": "sinks", "gpt2": "c_attn"}.get(name, "q")
    assert expected in result.layers[0]
    assert ("output" in result.outside) != model.config.tie_word_embeddings


def test_the_model_and_its_gradients_are_left_as_they_were():
    model = ours("v2").train()
    frozen, kept = model.model.norm.weight.requires_grad_(False), model.lm_head.weight
    kept.grad = before = torch.ones_like(kept)
    result = measure(model, tokens().numpy(), CONFIG)
    assert "norm" not in result.outside
    assert kept.grad is before
    assert bool((before == 1).all())
    assert frozen.grad is model.model.embed_tokens.weight.grad is None
    assert model.training
    assert not any("forward" in vars(module) for module in model.modules())
    json.dumps(result.to_dict(), allow_nan=False)
    with torch.no_grad():
        kept.fill_(torch.inf)
    diverged = measure(model, tokens().numpy(), CONFIG)
    assert diverged.loss is diverged.total is None
    assert kept.grad is before


def test_sequences_of_one_token():
    with pytest.raises(ValueError, match="tokens: expected two or more a sequence, got 1"):
        measure(ours("softmax"), np.ones((3, 1), int), CONFIG)
    assert measure(ours("softmax"), np.ones((1, LENGTH), int), CONFIG).total > 0
