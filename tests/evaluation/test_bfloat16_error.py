"""The error of bfloat16 is that between two whole forwards."""

from __future__ import annotations

import json

import pytest
import torch

from diffattn.evaluation import _logits
from diffattn.evaluation.bfloat16_error import Bfloat16ErrorConfig, measure
from loud_models import FOREIGN, OURS, foreign, ours, tokens

CONFIG = Bfloat16ErrorConfig(batch_size=2)


def by_hand(model):
    with torch.no_grad():
        exact = model(tokens(), use_cache=False).logits.double()
        with torch.autocast("cpu", torch.bfloat16):
            rounded = model(tokens(), use_cache=False).logits.double()
    scale = exact.square().mean().sqrt()
    difference = rounded - exact
    same = (rounded.argmax(-1) == exact.argmax(-1)).double().mean()
    return [(value / scale).item() for value in (difference.square().mean().sqrt(), difference.abs().max())], same


@pytest.mark.parametrize("piece", [1, 61 * 2 * 7, 1 << 24])
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", *OURS])
def test_against_whole_forwards(name, piece, monkeypatch):
    monkeypatch.setattr(_logits, "_PIECE", piece)
    model = foreign(name) if name in FOREIGN else ours(name)
    (rms, largest), same = by_hand(model)
    result = measure(model, tokens().numpy(), CONFIG)
    assert (result.rms, result.largest) == pytest.approx((rms, largest), rel=1e-3)
    assert (result.tokens, result.not_finite) == (46, 0)
    assert result.same_likeliest == pytest.approx(same.item())
    assert 1e-4 < result.rms < result.largest


def test_a_model_that_bfloat16_holds_exactly_has_no_error():
    model = ours("softmax")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.model.embed_tokens.weight.fill_(1.0)
        model.model.norm.weight.fill_(1.0)
        model.lm_head.weight[7] = 0.5
    model.config.rms_norm_eps = 0.0
    model.model.norm.variance_epsilon = 0.0
    result = measure(model, tokens().numpy(), CONFIG)
    assert (result.rms, result.largest, result.same_likeliest) == (0, 0, 1)


def test_a_diverged_model_has_no_number_and_the_model_is_left_as_it_was():
    model = ours("v2").train()
    json.dumps(measure(model, tokens().numpy(), CONFIG).to_dict(), allow_nan=False)
    assert model.training
    assert "forward" not in vars(model.model)
    with torch.no_grad():
        model.lm_head.weight[3] = torch.nan
    result = measure(model, tokens().numpy(), CONFIG)
    assert result.rms is result.largest is None
    assert result.not_finite == 46
