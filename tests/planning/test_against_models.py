"""The planner's arithmetic against models that transformers really builds, and against torch's own counter."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.planning.comparison import comparison, with_variant
from diffattn.planning.families import FAMILIES, read_model
from diffattn.planning.flops import forward_flops, prefill_flops, training_flops
from diffattn.planning.own_attention import own_attention
from diffattn.planning.presets import PRESETS

VARIANTS = ("softmax", "gated", "v1", "v2")
OURS = ("diff_transformer", "motif")  # not of transformers
# Of each family a small model with every option that changes its parameters.
SMALL = {
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": 211,
    "max_position_embeddings": 128,
}
MIXTURE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LATENT = {
    "num_key_value_heads": 8,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "n_shared_experts": 3,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
}
OPTIONS = {
    "llama": [{"attention_bias": True, "mlp_bias": True}, {"tie_word_embeddings": True}, {"num_key_value_heads": None}],
    "qwen2": [{"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2}],
    "qwen3": [{"attention_bias": True}],
    "olmo2": [{"attention_bias": True}],
    "gemma2": [{"sliding_window": 8}],
    "gemma3_text": [{"sliding_window": 8}],
    "mixtral": [{"num_local_experts": 4, "num_experts_per_tok": 2}],
    "gpt_oss": [{"num_local_experts": 4, "num_experts_per_tok": 2}],
    "qwen3_moe": [MIXTURE, {**MIXTURE, "decoder_sparse_step": 2}, {**MIXTURE, "mlp_only_layers": [1]}],
    "qwen2_moe": [{**MIXTURE, "shared_expert_intermediate_size": 40}],
    "olmoe": [{"num_experts": 6, "num_experts_per_tok": 2, "head_dim": 12}],
    "smollm3": [{"pad_token_id": 0}],
    "deepseek_v2": [{**LATENT, "q_lora_rank": 40}, {**LATENT, "q_lora_rank": None}],
    "deepseek_v3": [
        {**LATENT, "q_lora_rank": 40},
        {**LATENT, "q_lora_rank": None},
        {**LATENT, "q_lora_rank": 40, "attention_bias": True},
        {**LATENT, "q_lora_rank": None, "attention_bias": True},
    ],
    "phi3": [{"pad_token_id": 0}],
    "diffllama": [{"attention_bias": True}],
}
NEEDS_OPTIONS = {
    *("mixtral", "gpt_oss", "qwen3_moe", "qwen2_moe", "olmoe", "deepseek_v2", "deepseek_v3", "phi3", "smollm3"),
}
CASES = [
    (kind, options)
    for kind in FAMILIES
    if kind not in OURS
    for options in ([] if kind in NEEDS_OPTIONS else [{}]) + OPTIONS.get(kind, [])
]


def built(config):
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def parameters(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_every_family_has_the_parameters_of_transformers_own_model(kind, options):
    config = AutoConfig.for_model(kind, **{**SMALL, **options})
    model = built(config)
    for fields in ({"model_type": kind, **SMALL, **options}, config.to_dict()):
        if fields.get("num_key_value_heads", 0) is None:
            del fields["num_key_value_heads"]
        read = read_model(fields, kind)
        own = own_attention(fields, read.layers[0].attention)
        assert parameters(model) == (read.with_attention({read.layers[0].attention: own}) if own else read).total
        types = getattr(config, "layer_types", None)
        if types:
            widths = {"full_attention": None, "sliding_attention": getattr(config, "sliding_window", None)}
            assert [layer.window for layer in read.layers] == [widths[kind] for kind in types]


@pytest.mark.parametrize("name", [name for name, fields in PRESETS.items() if fields["model_type"] not in OURS])
def test_presets_are_what_transformers_reads(name):
    config = AutoConfig.for_model(**PRESETS[name])
    assert (
        parameters(built(config)) == read_model(PRESETS[name], name).total == read_model(config.to_dict(), name).total
    )


# From the models' pages and the safetensors' own counts; DeepSeek's without its routers' bias buffers.
PUBLISHED = {
    "llama-7b": 6_738_415_616,
    "llama-3.1-8b": 8_030_261_248,
    "mistral-7b": 7_241_732_096,
    "qwen3-4b": 4_022_468_096,
    "qwen3-30b-a3b": 30_532_122_624,
    "gpt-oss-20b": 20_914_757_184,
    "deepseek-v3": 671_026_419_200 - 58 * 256,
    "gemma-2-9b": 9_241_705_984,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_have_the_published_parameters(name):
    assert read_model(PRESETS[name], name).total == PUBLISHED[name]


def test_motif_with_its_grouped_attention_has_the_published_parameters():
    fields = PRESETS["motif-2-12.7b"]
    model = read_model(fields, "motif")
    base = model.layers[0].attention
    own = own_attention(fields, base)
    assert (own.heads, own.maps, own.keys, own.values, own.value_dim) == (32, 40, 16, 8, 256)
    assert own.cache_elements == base.cache_elements == 4096
    assert model.with_attention({base: own}).total == 12_703_860_896


def ours(attention, device="meta", **changes):
    config = DiffTransformerConfig.from_baseline(AutoConfig.for_model("llama", **{**SMALL, **changes}), attention)
    with torch.device(device):
        return config, DiffTransformerForCausalLM(config)


@pytest.mark.parametrize("attention", VARIANTS)
@pytest.mark.parametrize("changes", [{"num_key_value_heads": 2}, {"num_key_value_heads": 8}, {"attention_bias": True}])
def test_variants_have_the_parameters_of_our_models(attention, changes):
    config, model = ours(attention, **changes)
    baseline = read_model({"model_type": "llama", **SMALL, **changes}, "llama")
    planned = with_variant(baseline, attention)
    assert planned.total == parameters(model)
    assert planned.layers[0].attention == (
        own_attention(config.to_dict(), baseline.layers[0].attention) or baseline.layers[0].attention
    )
    layer = model.model.layers[0].self_attn
    assert sum(planned.layers[0].attention.parameters().values()) == parameters(layer)
    assert read_model(config.to_dict(), "").layers[0].attention == baseline.layers[0].attention


@pytest.mark.parametrize("attention", VARIANTS)
def test_the_cache_has_the_bytes_that_are_planned(attention):
    _, model = ours(attention, "cpu")
    tokens, cache = 7, DynamicCache()
    name = "cache" if "cache" in model(torch.zeros(1, 1, dtype=torch.long)) else "past_key_values"
    model(torch.zeros(1, tokens, dtype=torch.long), **{name: cache})
    stored = sum(t.numel() for layer in cache.layers for t in (layer.keys, layer.values))
    planned = with_variant(read_model({"model_type": "llama", **SMALL}, "llama"), attention)
    assert stored == tokens * planned.cache_elements


def counted(model, length, backward=False):
    """FLOPs by torch's counter, which takes every product as a whole rectangle.

    Older rotary embeddings are a product too, of positions with frequencies; that does not count.
    """
    ids = torch.zeros(1, length, dtype=torch.long)
    model.set_attn_implementation("eager")
    with FlopCounterMode(display=False) as counter:
        logits = model(ids, use_cache=False).logits
        if backward:
            logits.sum().backward()
    with FlopCounterMode(display=False) as angles:
        model.model.rotary_emb(torch.zeros(1), torch.arange(length)[None])
    return counter.get_total_flops() - angles.get_total_flops()


@pytest.mark.parametrize("attention", VARIANTS)
@pytest.mark.parametrize("length", [3, 64])
def test_forward_flops_are_those_that_torch_counts(attention, length):
    config, model = ours(attention, "cpu")
    planned = with_variant(read_model({"model_type": "llama", **SMALL}, "llama"), attention)
    # Transformers' own attention multiplies V1's padded queries, 2D wide, with keys 2D wide: half of those are zeros.
    zeros = 2 * length**2 * config.num_attention_heads * config.map_dim * 4 if attention == "v1" else 0
    assert counted(model, length) - zeros == forward_flops(planned, length, causal=False)


@pytest.mark.parametrize("kind", ["mixtral", "gpt_oss", "qwen3"])
def test_forward_flops_of_other_families(kind):
    """A mixture's experts are run by a kernel that torch does not count: there by hand, 2 of 4 experts and a router."""
    options = OPTIONS.get(kind, [{}])[0] if kind in NEEDS_OPTIONS else {}
    config = AutoConfig.for_model(kind, **{**SMALL, **options})
    read = read_model({"model_type": kind, **SMALL, **options}, kind)
    if read.layers[0].feed_forward.experts:
        assert read.layers[0].feed_forward.linear_flops() == 2 * (3 * 2 * 96 * 160 + 4 * 96)
    else:
        model = AutoModelForCausalLM.from_config(config)
        assert counted(model, 16) == forward_flops(read, 16, causal=False)


def test_training_is_three_forwards():
    _, model = ours("v2", "cpu")
    planned = with_variant(read_model({"model_type": "llama", **SMALL}, "llama"), "v2")
    length = 32
    assert counted(model, length, backward=True) == 3 * forward_flops(planned, length, causal=False)
    assert training_flops(planned, length) == 3 * forward_flops(planned, length) / length


def test_prefill_makes_the_last_tokens_logits_alone():
    planned = read_model({"model_type": "llama", **SMALL}, "llama")
    assert forward_flops(planned, 64) - prefill_flops(planned, 64) == 2 * 211 * 96 * 63


def test_the_matched_models_have_the_baselines_parameters_and_the_control_v2s():
    for name in ("llama-3.1-8b", "llama-7b", "qwen3-4b"):
        model = read_model(PRESETS[name], name)
        found, missing = comparison(model)
        assert not missing
        per_step = 8 * 3 * model.width * len(model.layers)
        assert abs(found["matched"].total - model.total) <= per_step / 2
        lambdas = sum(layer.attention.parameters()["lambda"] for layer in found["v2"].layers)
        assert abs(found["control"].total - found["v2"].total) <= max(lambdas, per_step / 2)
        assert found["control"].layers[0].attention.name == "softmax"
