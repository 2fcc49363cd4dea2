"""Where lambda of a model starts, whatever its granularity, when it is new and when a checkpoint lacks it."""

from __future__ import annotations

import copy

import pytest
import torch

from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from small_models import build, llama, tokens

STARTS = {
    "v1, layer": ("v1", {}, [0.2, 0.35551, 0.47071], False),
    "v1, token": ("v1", {"lambda_granularity": "token"}, [0.2, 0.35551, 0.47071], False),
    "v1, head": ("v1", {"lambda_granularity": "head", "lambda_init": 1.25}, [1.25] * 3, False),
    "v1, fixed": ("v1", {"lambda_granularity": "fixed", "lambda_init": [0.0, 0.5, 1.5]}, [0.0, 0.5, 1.5], True),
    "v2, token": ("v2", {}, [0.5] * 3, False),
    "v2, head": ("v2", {"lambda_granularity": "head", "lambda_init": 0.3}, [0.3] * 3, True),
    "v2, layer": ("v2", {"lambda_granularity": "layer", "lambda_init": [0.1, 0.2, 0.7]}, [0.1, 0.2, 0.7], True),
    "v2, layer, by default": ("v2", {"lambda_granularity": "layer"}, [0.5] * 3, True),
    "v2, fixed": ("v2", {"lambda_granularity": "fixed"}, [0.5] * 3, True),
    "v2, fixed at 1.5": ("v2", {"lambda_granularity": "fixed", "lambda_init": 1.5}, [1.5] * 3, True),
}


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


@pytest.mark.parametrize(("attention", "fields", "starts", "exact"), STARTS.values(), ids=STARTS)
def test_where_lambda_starts(attention, fields, starts, exact):
    """Within what the vectors and projections of a new model spread; exact where there are none."""
    torch.manual_seed(0)
    model = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(llama(), attention, **fields))
    with model.record_lambda():
        model(tokens(2, 9))
    for found, start in zip(model.lambda_statistics(), starts, strict=True):
        if exact:
            assert found == pytest.approx({"mean": start, "min": start, "max": start})
        else:
            assert abs(found["mean"] - start) < 0.1


def test_lambda_of_a_checkpoint_without_one_starts_as_new():
    for attention, granularity, name in (("v1", "token", "lambda_proj.bias"), ("v2", "head", "lambda_logit")):
        config = DiffTransformerConfig.from_baseline(
            llama(), attention, lambda_granularity=granularity, lambda_init=[0.2, 0.3, 0.6]
        )
        model = build(attention, lambda_granularity=granularity, lambda_init=[0.2, 0.3, 0.6])
        kept = {key: value for key, value in model.state_dict().items() if f"layers.1.self_attn.{name}" not in key}
        loaded = DiffTransformerForCausalLM.from_pretrained(None, config=copy.deepcopy(config), state_dict=kept)
        fresh, held = (loaded.get_parameter(f"model.layers.{i}.self_attn.{name}") for i in (1, 2))
        torch.testing.assert_close(torch.sigmoid(fresh), torch.full_like(fresh, 0.3))
        assert torch.equal(held, model.get_parameter(f"model.layers.2.self_attn.{name}"))
