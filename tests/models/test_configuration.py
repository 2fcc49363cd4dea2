"""Variants derived from ordinary configurations, and numbers that do not fit."""

from __future__ import annotations

import pytest
from transformers import (
    AutoConfig,
    Gemma2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Qwen2Config,
    Qwen3Config,
    StableLmConfig,
)

from diffattn.models import VARIANTS, DiffTransformerConfig, DiffTransformerForCausalLM, count_parameters

GEOMETRY = ("num_attention_heads", "head_dim", "num_key_value_heads", "map_dim", "num_noise_heads")


def geometry(config):
    return tuple(getattr(config, name) for name in GEOMETRY)


def llama(width=64, heads=8, kv_heads=4, **kwargs):
    return LlamaConfig(
        vocab_size=97,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        **kwargs,
    )


@pytest.mark.parametrize(
    ("baseline", "attention", "expected"),
    [
        (llama(), "softmax", (8, 8, 4, 8, 0)),
        (llama(), "gated", (8, 8, 4, 8, 0)),
        (llama(), "v1", (8, 16, 2, 8, 4)),
        (llama(), "v2", (16, 8, 4, 8, 8)),
        (llama(768, 12, 12), "v1", (12, 128, 6, 64, 6)),
        (llama(896, 14, 2), "v1", (14, 128, 1, 64, 7)),
        (llama(576, 9, 3), "v2", (18, 64, 3, 64, 9)),
        (llama(64, 4, 2, head_dim=32), "v2", (8, 32, 2, 32, 4)),
        (llama(64, 4, 2, head_dim=32), "v1", (4, 64, 1, 32, 2)),
    ],
)
def test_geometry(baseline, attention, expected):
    assert geometry(DiffTransformerConfig.from_baseline(baseline, attention)) == expected


@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (6, 3), (9, 9)])
def test_odd_heads_as_v1_name_v2(heads, kv_heads):
    with pytest.raises(ValueError, match=r"even numbers of heads .* got .*'v2' works"):
        DiffTransformerConfig.from_baseline(llama(16 * heads, heads, kv_heads), "v1")


@pytest.mark.parametrize("attention", VARIANTS)
def test_matched_parameters(attention):
    baseline = llama(tie_word_embeddings=True)
    config = DiffTransformerConfig.from_baseline(baseline, attention, match_parameters=True)
    softmax = DiffTransformerConfig.from_baseline(baseline, "softmax")
    assert config.intermediate_size % 8 == 0
    per_step = 8 * 3 * config.hidden_size * config.num_hidden_layers
    difference = count_parameters(config).total - count_parameters(softmax).total
    assert difference == config.unmatched_parameters
    assert abs(difference) <= per_step / 2
    plain = DiffTransformerConfig.from_baseline(baseline, attention)
    changed = {k for k, v in config.to_dict().items() if plain.to_dict()[k] != v}
    assert changed <= {"intermediate_size", "unmatched_parameters"}


def test_a_feed_forward_too_small_to_pay_is_refused():
    with pytest.raises(ValueError, match=r"match_parameters: .*widen intermediate_size"):
        DiffTransformerConfig.from_baseline(small(), "v2", match_parameters=True)


def small():
    config = llama()
    config.intermediate_size = 8
    return config


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("attention", VARIANTS)
def test_counts_equal_the_models(attention, tied):
    for baseline in (llama(tie_word_embeddings=tied), llama(attention_bias=True, mlp_bias=True), qwen3(), qwen2()):
        config = DiffTransformerConfig.from_baseline(baseline, attention, lambda_bias=True)
        model = DiffTransformerForCausalLM(config)
        assert sum(p.numel() for p in model.parameters()) == count_parameters(config).total
        layer = model.model.layers[0].self_attn
        assert sum(p.numel() for p in layer.parameters()) * 2 == count_parameters(config).attention


def qwen2(**kwargs):
    return Qwen2Config(
        vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, **kwargs,
    )  # fmt: skip


def qwen3():
    return Qwen3Config(
        vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32,
    )  # fmt: skip


def test_other_families():
    config = DiffTransformerConfig.from_baseline(qwen2(), "v2")
    assert (config.attention_bias, config.attention_output_bias, config.qk_norm) == (True, False, False)
    config = DiffTransformerConfig.from_baseline(qwen3(), "v2")
    assert (config.attention_bias, config.qk_norm, config.map_dim) == (False, True, 32)
    mistral = MistralConfig(
        vocab_size=97,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=16,
    )
    config = DiffTransformerConfig.from_baseline(mistral, "v2")
    assert config.layer_types == ["sliding_attention"] * 3
    assert config.sliding_window == 16
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 5e5, "original_max_position_embeddings": 64}
    config = DiffTransformerConfig.from_baseline(llama(rope_parameters=rope), "v1")
    assert config.rope_parameters["factor"] == 4.0
    DiffTransformerForCausalLM(config)


def test_round_trip(tmp_path):
    config = DiffTransformerConfig.from_baseline(llama(), "v1", lambda_init=[0.1, 0.2], lambda_granularity="fixed")
    config.save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert type(loaded) is DiffTransformerConfig
    assert {**loaded.to_dict(), "_name_or_path": ""} == config.to_dict()
    assert DiffTransformerForCausalLM(loaded).model.layers[1].self_attn.lambda_init == 0.2
    again = DiffTransformerConfig.from_baseline(DiffTransformerConfig.from_baseline(llama(), "softmax"), "v1")
    assert geometry(again) == geometry(config)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"attention": "v3"}, "attention: expected one of softmax, gated, v1, v2"),
        ({"attention": "v2", "num_attention_heads": 7}, "num_attention_heads: expected an even number"),
        ({"attention": "softmax", "hidden_size": 100}, "hidden_size: 100 is no multiple"),
        ({"attention": "v2", "num_key_value_heads": 3}, "num_key_value_heads: 3 must divide the 8"),
        ({"attention": "v1", "head_dim": 64, "map_dim": 64}, "head_dim: expected 2 x map_dim = 128"),
        ({"attention": "v2", "num_noise_heads": 2}, "num_noise_heads: expected 8"),
        (
            {"lambda_granularity": "row"},
            "lambda_granularity: expected token or head or layer or fixed for attention='v2'",
        ),
        (
            {"attention": "gated", "lambda_granularity": "head"},
            "lambda_granularity: expected none for attention='gated'",
        ),
        (
            {"lambda_granularity": "head", "lambda_init": 1.0},
            "lambda_init: expected a number between 0 and 1 for lambda",
        ),
        (
            {"attention": "v1", "lambda_granularity": "token", "lambda_init": [0.5] * 7 + [0.0]},
            "lambda_init: expected a",
        ),
        ({"attention": "v1", "lambda_init": "zero"}, "lambda_init: expected 'schedule'"),
        ({"attention": "v1", "lambda_init": [0.5]}, "lambda_init: expected 8 numbers"),
        ({"layer_types": ["full_attention"]}, "layer_types: expected 8 entries"),
        ({"layer_types": ["chunked"] * 8}, "layer_types: expected full_attention or"),
        ({"layer_types": ["sliding_attention"] * 8}, "sliding_window: expected"),
        ({"layer_types": ["sliding_attention"] * 8, "sliding_window": -4}, "sliding_window: expected"),
        ({"attention": "v1", "lambda_init": ["a"] * 8}, "lambda_init: expected numbers"),
        ({"map_dim": 0, "head_dim": 0}, "map_dim: expected an even width"),
    ],
)
def test_numbers_that_do_not_fit(fields, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        DiffTransformerConfig(**fields)


def test_a_baseline_must_be_ordinary_and_of_the_family():
    with pytest.raises(ValueError, match=r"^config: expected ordinary attention"):
        DiffTransformerConfig.from_baseline(DiffTransformerConfig.from_baseline(llama(), "v2"), "v1")
    for other in (GPTNeoXConfig(), Gemma2Config(), StableLmConfig(), MixtralConfig()):
        with pytest.raises(
            ValueError, match=rf"^config: expected a model of the family llama, .* got '{other.model_type}'"
        ):
            DiffTransformerConfig.from_baseline(other, "v2")


@pytest.mark.parametrize("attention", VARIANTS)
def test_overrides_reach_the_baseline_that_is_matched(attention):
    config = DiffTransformerConfig.from_baseline(llama(), attention, match_parameters=True, num_hidden_layers=5)
    assert config.layer_types == ["full_attention"] * 5
    per_step = 8 * 3 * config.hidden_size * 5
    assert abs(config.unmatched_parameters) <= per_step / 2
