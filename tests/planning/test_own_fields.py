"""Fields of our own configurations: each combination counted as the model that is built from it."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from transformers import LlamaConfig

from diffattn.models import VARIANTS, DiffTransformerConfig, DiffTransformerForCausalLM, count_parameters
from diffattn.models.lambda_fields import GRANULARITIES
from diffattn.planning.comparison import with_variant
from diffattn.planning.families import read_model
from diffattn.planning.own_attention import own_attention
from diffattn.planning.plan import plan
from diffattn.planning.request import PlanRequest

BASE = LlamaConfig(
    vocab_size=211, hidden_size=96, intermediate_size=160, num_hidden_layers=3, num_attention_heads=8,
    num_key_value_heads=4, head_dim=16, max_position_embeddings=128,
)  # fmt: skip
OPTIONS = [
    {"attention": attention, "lambda_granularity": granularity, **others}
    for attention in ("v1", "v2")
    for granularity in GRANULARITIES[attention]
    for others in ({}, {"lambda_bias": True, "attention_bias": True}, {"head_norm": False, "qk_norm": True})
]
OPTIONS += [{"attention": "softmax", "attention_sink": True, "attention_bias": bias} for bias in (False, True)]


def built(config):
    with torch.device("meta"):
        return DiffTransformerForCausalLM(config)


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_combination_has_the_parameters_of_the_model(options):
    for rotary, length in product((True, False), (None, 7)):
        config = DiffTransformerConfig.from_baseline(BASE, **options, rotary=rotary, log_n_length=length)
        model, fields = built(config), config.to_dict()
        read = read_model(fields, "")
        base = read.layers[0].attention
        planned = read.with_attention({base: own_attention(fields, base) or base})
        assert planned.total == count_parameters(config).total == parameters(model)
        layer = model.model.layers[0].self_attn
        assert sum(planned.layers[0].attention.parameters().values()) == parameters(layer)


@pytest.mark.parametrize("attention", VARIANTS)
def test_a_variant_of_a_model_with_sinks_has_none_where_ours_has_none(attention):
    base = DiffTransformerConfig.from_baseline(BASE, "softmax", attention_sink=True, rotary=False)
    planned = with_variant(read_model(base.to_dict(), ""), attention)
    assert planned.total == parameters(built(DiffTransformerConfig.from_baseline(base, attention)))


def test_token_lambda_is_a_product_that_counts_and_numbers_are_not():
    flops = {}
    for options in ({"attention": "v1"}, {"attention": "v1", "lambda_granularity": "token"}):
        fields = DiffTransformerConfig.from_baseline(BASE, **options).to_dict()
        flops[str(options)] = own_attention(fields, read_model(fields, "").layers[0].attention).linear_flops()
    plain, token = flops.values()
    assert token - plain == 2 * 96 * 4
    for granularity in ("head", "layer", "fixed"):
        fields = DiffTransformerConfig.from_baseline(BASE, "v2", lambda_granularity=granularity).to_dict()
        own = own_attention(fields, read_model(fields, "").layers[0].attention)
        assert own.linear_flops() == 2 * 96 * 16 * (16 + 4 + 4 + 8)


@pytest.mark.parametrize(
    "options", [OPTIONS[0], OPTIONS[-1], {"attention": "v2", "lambda_granularity": "head"}], ids=str
)
def test_the_plan_takes_the_fields(options):
    config = DiffTransformerConfig.from_baseline(BASE, **options, rotary=False, log_n_length=7)
    assert plan(PlanRequest(config=config.to_dict(), name="own"))


@pytest.mark.parametrize("given", ["row", 3, ["token"], {}, "none"])
def test_a_granularity_that_is_not_known_is_refused(given):
    fields = {**DiffTransformerConfig.from_baseline(BASE, "v2").to_dict(), "lambda_granularity": given}
    with pytest.raises(ValueError, match=r"^lambda_granularity: expected token, head, layer or fixed, got"):
        own_attention(fields, read_model(fields, "").layers[0].attention)


def test_a_sink_that_is_no_flag_is_refused():
    fields = {**DiffTransformerConfig.from_baseline(BASE, "softmax").to_dict(), "attention_sink": 2}
    with pytest.raises(ValueError, match=r"^attention_sink: expected true or false, got 2"):
        read_model(fields, "")
