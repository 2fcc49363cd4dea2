"""Models: the same tokens by every way of decoding, padding, packing, saving, and the interface to engines."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    ContinuousBatchingConfig,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    StaticCache,
)

from diffattn.models import VARIANTS, DiffTransformerConfig, DiffTransformerForCausalLM, GrowingCache
from diffattn.models.compat import CACHE

IMPLEMENTATIONS = ("diffattn", "sdpa", "eager")


def baseline(**kwargs):
    fields = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4, **kwargs}
    return LlamaConfig(
        vocab_size=97, intermediate_size=96, num_hidden_layers=3, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=None, pad_token_id=0, **fields,
    )  # fmt: skip


def build(attention, implementation="diffattn", seed=0, **kwargs):
    """A model with weights large enough that positions and padding matter."""
    overrides = {k: kwargs.pop(k) for k in ("layer_types", "sliding_window", "qk_norm") if k in kwargs}
    config = DiffTransformerConfig.from_baseline(baseline(**kwargs), attention, **overrides)
    torch.manual_seed(seed)
    model = DiffTransformerForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.15)
    model.set_attn_implementation(implementation)
    return model


def assert_same(got, expected):
    """Equal but for float32's rounding through all layers; a wrong mask or position shows at 1e-2 and more."""
    assert got.shape == expected.shape
    assert (got - expected).norm() <= 1e-5 * expected.norm()


def tokens(*shape, seed=1):
    return torch.randint(1, 97, shape, generator=torch.Generator().manual_seed(seed))


def left_padded():
    ids, mask = tokens(2, 9), torch.ones(2, 9, dtype=torch.long)
    mask[0, :4] = 0
    return ids, mask


SHAPES = {
    "full": {},
    "wide heads": {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32},
    "sliding": {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "sliding_window": 5},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("attention", VARIANTS)
def test_every_cache_gives_the_same_tokens(attention, implementation, shape):
    model = build(attention, implementation, **SHAPES[shape])
    ids, mask = left_padded()
    settings = {"max_new_tokens": 14, "do_sample": False, "disable_compile": True, "attention_mask": mask}
    without = model.generate(ids, use_cache=False, **settings)
    assert torch.equal(model.generate(ids, **settings), without)
    assert torch.equal(model.generate(ids, cache_implementation="static", **settings), without)
    if shape != "sliding":
        assert torch.equal(model.generate(ids, **{CACHE: GrowingCache()}, **settings), without)


@pytest.mark.parametrize("attention", VARIANTS)
def test_static_cache_longer_than_the_prompt(attention):
    model = build(attention)
    ids = tokens(1, 12)
    cache = StaticCache(config=model.config, max_cache_len=31)
    with torch.no_grad():
        prefill = model(ids, **{CACHE: cache}).logits
        step = model(tokens(1, 1, seed=5), **{CACHE: cache}).logits
        whole = model(torch.cat([ids, tokens(1, 1, seed=5)], dim=1)).logits
    assert_same(prefill, whole[:, :12])
    assert_same(step, whole[:, 12:])
    assert cache.layers[0].keys.shape[1:] == (model.config.num_key_value_heads, 31, model.config.head_dim)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("attention", VARIANTS)
def test_left_padded_batch_equals_unpadded(attention, implementation):
    model = build(attention, implementation)
    ids, mask = left_padded()
    with torch.no_grad():
        padded = model(ids, attention_mask=mask).logits
        alone = model(ids[:1, 4:]).logits
        full = model(ids[1:]).logits
    assert_same(padded[:1, 4:], alone)
    assert_same(padded[1:], full)
    with torch.no_grad():
        changed = ids.clone()
        changed[0, :4] = 5
        assert_same(model(changed, attention_mask=mask).logits[0, 4:], padded[0, 4:])
    settings = {"max_new_tokens": 8, "do_sample": False, "disable_compile": True}
    batch = model.generate(ids, attention_mask=mask, **settings)
    single = model.generate(ids[:1, 4:], **settings)
    assert torch.equal(batch[0, 9:], single[0, 5:])


@pytest.mark.parametrize("use_cache", [None, False])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("attention", VARIANTS)
def test_packed_documents_do_not_see_each_other(attention, implementation, use_cache):
    model = build(attention, implementation)
    ids = tokens(1, 11)
    positions = torch.tensor([[*range(6), *range(5)]])
    with torch.no_grad():
        packed = model(ids, position_ids=positions, use_cache=use_cache).logits
        assert_same(packed[:, 6:], model(ids[:, 6:]).logits)
        assert_same(packed[:, :6], model(ids[:, :6]).logits)


@pytest.mark.parametrize("attention", VARIANTS)
def test_chunked_prefill_and_shared_prefix(attention):
    model = build(attention)
    ids = tokens(1, 24)
    with torch.no_grad():
        whole = model(ids).logits
        cache, parts = None, []
        for chunk in ids.split(7, dim=1):
            out = model(chunk, use_cache=True, **{CACHE: cache})
            cache = getattr(out, CACHE)
            parts.append(out.logits)
        assert_same(torch.cat(parts, dim=1), whole)
        prefix = getattr(model(ids[:, :10], use_cache=True), CACHE)
        for seed in (2, 3):
            suffix = tokens(1, 6, seed=seed)
            continued = model(suffix, **{CACHE: copy.deepcopy(prefix)}).logits
            assert_same(continued, model(torch.cat([ids[:, :10], suffix], dim=1)).logits[:, 10:])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("attention", VARIANTS)
def test_sliding_layers_with_a_rolling_cache(attention, implementation):
    model = build(attention, implementation, layer_types=["sliding_attention"] * 3, sliding_window=4)
    ids = tokens(1, 10)
    with torch.no_grad():
        whole = model(ids).logits
        changed = ids.clone()
        changed[0, 0] = (changed[0, 0] + 1) % 97
        reach = 3 * 3  # three layers, each three keys back
        assert_same(model(changed).logits[:, reach + 1 :], whole[:, reach + 1 :])
        assert (model(changed).logits[:, reach] - whole[:, reach]).norm() > 1e-3 * whole[:, reach].norm()
        cache, parts = None, []
        for token in ids.split(1, dim=1):
            out = model(token, use_cache=True, **{CACHE: cache})
            cache = getattr(out, CACHE)
            parts.append(out.logits)
        assert_same(torch.cat(parts, dim=1), whole)
    assert cache.layers[0].keys.shape[2] == 3


@pytest.mark.parametrize("attention", VARIANTS)
def test_engines_agree_with_the_operator(attention):
    model = build(attention, qk_norm=True)
    ids, mask = left_padded()
    results = {}
    for implementation in IMPLEMENTATIONS:
        model.set_attn_implementation(implementation)
        with torch.no_grad():
            results[implementation] = model(ids, attention_mask=mask).logits
    seen = mask.bool()
    for logits in results.values():
        assert_same(logits[seen], results["diffattn"][seen])


@pytest.mark.parametrize("attention", VARIANTS)
def test_one_attention_call_a_layer_in_the_stated_geometry(attention):
    """What a serving engine sees: shapes from the configuration, one call, outputs flat or by head."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    calls = []

    def engine(module, query, key, value, attention_mask, scaling=None, **kwargs):
        calls.append((module.layer_idx, query.shape[1:], key.shape[1:], value.shape[1:]))
        out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, is_causal=True)
        return out.flatten(0, 1).flatten(1), None

    AttentionInterface.register("engine_of_this_test", engine)
    model = build(attention)
    ids = tokens(1, 7)
    with torch.no_grad():
        expected = model(ids).logits
        model.config._attn_implementation = "engine_of_this_test"
        assert_same(model(ids).logits, expected)
    config = model.config
    q = (config.num_attention_heads, 7, config.head_dim)
    kv = (config.num_key_value_heads, 7, config.head_dim)
    assert [tuple(map(tuple, call[1:])) for call in calls] == [(q, kv, kv)] * 3
    assert [call[0] for call in calls] == [0, 1, 2]
    # The baseline's cache, byte for byte.
    base = baseline()
    assert kv[0] * kv[2] == base.num_key_value_heads * base.head_dim


def test_softmax_variant_is_transformers_llama():
    base = baseline()
    llama = LlamaForCausalLM(base).eval()
    model = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(base, "softmax")).eval()
    model.load_state_dict(llama.state_dict())
    ids, mask = left_padded()
    with torch.no_grad():
        ours, theirs = (m(ids, attention_mask=mask).logits[mask.bool()] for m in (model, llama))
    assert_same(ours, theirs)


@pytest.mark.parametrize("attention", VARIANTS)
def test_save_and_load(attention, tmp_path):
    model = build(attention, "sdpa")
    model.save_pretrained(tmp_path)
    assert "attn_implementation" not in (tmp_path / "config.json").read_text()
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".safetensors"}
    assert not [name for name in load_file(tmp_path / "model.safetensors") if "rotary" in name or "lm_head" in name]
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(loaded) is DiffTransformerForCausalLM
    assert loaded.config._attn_implementation == "diffattn"
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name
    ids = tokens(1, 8)
    with torch.no_grad():
        assert_same(loaded.eval()(ids).logits, model(ids).logits)
        hidden = AutoModel.from_pretrained(tmp_path).eval()(ids).last_hidden_state
        assert_same(hidden, model.model(ids).last_hidden_state)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "diff_transformer"


@pytest.mark.parametrize("attention", VARIANTS)
def test_a_checkpoint_that_lacks_weights_gets_proper_initial_values(attention, tmp_path):
    """from_pretrained builds on the meta device: what is missing must be initialised, lambda included."""
    model = build(attention)
    model.model.save_pretrained(tmp_path)
    config = copy.deepcopy(model.config)
    fresh = AutoModelForCausalLM.from_config(config)
    for name, parameter in fresh.named_parameters():
        assert parameter.isfinite().all(), name
        if "lambda_q" in name or "lambda_k" in name:
            assert 0.01 < parameter.std() < 0.4
        if name.endswith("norm.weight"):
            assert torch.equal(parameter, torch.ones_like(parameter))


@pytest.mark.parametrize("attention", VARIANTS)
def test_gradient_checkpointing_gives_the_same_gradients(attention):
    model = build(attention).train()
    ids = tokens(2, 12)
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    plain = gradients(model, ids, mask)
    model.gradient_checkpointing_enable()
    again = gradients(model, ids, mask)
    assert plain.keys() == again.keys()
    for name, grad in plain.items():
        assert_same(again[name], grad)


def gradients(model, ids, mask):
    model.zero_grad()
    model(ids, attention_mask=mask, labels=ids).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("attention", VARIANTS)
def test_every_parameter_learns(attention):
    model = build(attention, qk_norm=True).train()
    for name, grad in gradients(model, tokens(2, 12), torch.ones(2, 12)).items():
        assert grad.abs().max() > 0, name


@pytest.mark.parametrize("implementation", ["diffattn", "eager"])
@pytest.mark.parametrize("attention", VARIANTS)
def test_attentions_are_the_signed_map(attention, implementation):
    model = build(attention, implementation)
    with torch.no_grad(), model.record_lambda():
        out = model(tokens(1, 6), output_attentions=True, output_hidden_states=True)
    assert len(out.attentions) == 3
    assert len(out.hidden_states) == 4
    for layer, weights in zip(model.model.layers, out.attentions, strict=True):
        lam = layer.self_attn.recorded_lambda
        expected = 1 - (0.0 if lam is None else lam)
        assert weights.shape == (1, model.config.num_output_heads, 6, 6)
        assert_same(weights.sum(-1), (expected * torch.ones(1, model.config.num_output_heads, 6)).double())


@pytest.mark.parametrize("attention", VARIANTS)
def test_lambda_statistics(attention):
    model = build(attention)
    assert model.lambda_statistics() == [None] * 3
    with torch.no_grad(), model.record_lambda():
        model(tokens(1, 6))
    for stats in model.lambda_statistics():
        if attention in ("softmax", "gated"):
            assert stats is None
        else:
            assert stats["min"] <= stats["mean"] <= stats["max"]
    assert not any(layer.self_attn.records_lambda for layer in model.model.layers)


def test_a_custom_mask_of_four_dimensions_is_all_there_is():
    model = build("v2")
    ids = tokens(1, 6)
    causal = torch.ones(1, 1, 6, 6).tril().bool()
    with torch.no_grad():
        assert_same(model(ids, attention_mask=causal).logits, model(ids).logits)


def test_growing_cache_serves_beam_search():
    model = build("v1")
    settings = {"max_new_tokens": 10, "do_sample": False, "disable_compile": True, "num_beams": 3}
    ids = tokens(2, 5)
    expected = model.generate(ids, **settings)
    assert torch.equal(model.generate(ids, **{CACHE: GrowingCache()}, **settings), expected)


def test_growing_cache_writes_in_place_and_leaves_training_alone():
    model = build("v2")
    cache = GrowingCache()
    with torch.no_grad():
        for _ in range(5):
            model(tokens(1, 3), **{CACHE: cache})
            first = cache.layers[0].keys.data_ptr()
        model(tokens(1, 3), **{CACHE: cache})
    assert cache.layers[0].keys.data_ptr() == first
    assert cache.get_seq_length() == 18
    model(tokens(1, 3), **{CACHE: GrowingCache()}).logits.sum().backward()
    assert model.model.layers[0].self_attn.k_proj.weight.grad.isfinite().all()


def test_wrong_inputs():
    with pytest.raises(ValueError, match="exactly one of input_ids"):
        build("v2")()


def test_copies_of_a_growing_cache_grow_apart():
    model = build("v2")
    prefix, ids = tokens(1, 10), [tokens(1, 4, seed=seed) for seed in (5, 6)]
    with torch.no_grad():
        cache = GrowingCache()
        model(prefix, **{CACHE: cache})
        other = copy.copy(cache)
        other.layers = [copy.copy(layer) for layer in cache.layers]
        model(ids[0], **{CACHE: cache})
        model(ids[1], **{CACHE: other})
        last = tokens(1, 1, seed=7)
        for suffix, held in zip(ids, (cache, other), strict=True):
            assert_same(model(last, **{CACHE: held}).logits, model(torch.cat([prefix, suffix, last], 1)).logits[:, -1:])


def test_growing_cache_begun_in_inference_mode():
    model = build("v2")
    cache = GrowingCache()
    with torch.inference_mode():
        model(tokens(1, 5), **{CACHE: cache})
    with torch.no_grad():
        step = model(tokens(1, 1, seed=3), **{CACHE: cache}).logits
        assert_same(step, model(torch.cat([tokens(1, 5), tokens(1, 1, seed=3)], 1)).logits[:, -1:])


@pytest.mark.parametrize("attention", ["v1", "v2"])
def test_continuous_batching_runs_on_sdpa(attention):
    model = build(attention, "sdpa")
    prompts = [tokens(9)[:7].tolist(), tokens(5, seed=4).tolist()]
    settings = {"max_new_tokens": 5, "do_sample": False}
    config = GenerationConfig(**settings, eos_token_id=-1, pad_token_id=0)
    small = ContinuousBatchingConfig(num_blocks=8, max_batch_tokens=64)
    outputs = model.generate_batch(inputs=prompts, generation_config=config, continuous_batching_config=small)
    got = [out.generated_tokens for out in sorted(outputs.values(), key=lambda out: len(out.prompt_ids), reverse=True)]
    for prompt, generated in zip(prompts, got, strict=True):
        expected = model.generate(torch.tensor([prompt]), **settings)[0, len(prompt) :]
        assert generated == expected.tolist()
