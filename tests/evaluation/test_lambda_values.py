"""Lambda as reported is what the layers' own parameters say."""

from __future__ import annotations

import json
import math

import pytest
import torch

from diffattn.evaluation.lambda_values import LambdaValuesConfig, measure
from loud_models import foreign, ours, tokens

CONFIG = LambdaValuesConfig(batch_size=1)


def test_v1_with_lambdas_that_ran_away():
    model = ours("v1")
    first, second = (layer.self_attn for layer in model.model.layers)
    with torch.no_grad():
        for layer in (first, second):
            for name in layer.VECTORS:
                getattr(layer, name).zero_()
        first.lambda_q1[0], first.lambda_k1[0] = 2.0, 1.5  # e^3 - 1 + lambda_init
        second.lambda_q2[1], second.lambda_k2[1] = 1.0, 1.0  # 1 - e + lambda_init
    result = measure(model, tokens().numpy(), CONFIG)
    expected = [math.exp(3) - 1 + 0.2, 1 - math.e + 0.8 - 0.6 * math.exp(-0.3)]
    for layer, lam in zip(result.layers, expected, strict=True):
        assert (layer.mean, layer.mean_absolute, layer.largest_absolute) == pytest.approx((lam, abs(lam), abs(lam)))
    assert [(layer.layer, layer.values, layer.above) for layer in result.layers] == [(0, 1, 1), (1, 1, 0)]
    assert (result.above, result.largest_absolute) == (1, pytest.approx(expected[0]))


def test_v2_has_one_for_each_token_and_head():
    model, given = ours("v2").train(), []
    projections = [layer.self_attn.lambda_proj for layer in model.model.layers]
    hooks = [each.register_forward_hook(lambda *parts: given.append(parts[2].detach())) for each in projections]
    with torch.no_grad():
        model.eval()(tokens(), use_cache=False)
    for hook in hooks:
        hook.remove()
    result = measure(model.train(), tokens().numpy(), LambdaValuesConfig(threshold=0.5))
    for layer, logits in zip(result.layers, given, strict=True):
        lam = 1 / (1 + torch.exp(-logits.double()))
        assert layer.values == lam.numel() == 2 * 23 * 4
        assert (layer.mean, layer.largest_absolute) == pytest.approx((lam.mean().item(), lam.max().item()), rel=1e-5)
        assert layer.above == (lam > 0.5).sum() > 0
    assert result.above == sum(layer.above for layer in result.layers)
    assert model.training
    assert [layer.self_attn.recorded_lambda for layer in model.model.layers] == [None, None]
    assert [layer.self_attn.records_lambda for layer in model.model.layers] == [False, False]
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("make", [lambda: ours("softmax"), lambda: foreign("llama")])
def test_no_lambda(make):
    result = measure(make(), tokens().numpy(), CONFIG)
    assert (result.above, result.largest_absolute, result.layers) == (0, None, ())
