"""Inputs that public implementations get wrong, one test each: the models and their caches."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import DynamicCache, LlamaConfig, Qwen2Config, StaticCache

from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM, GrowingCache
from diffattn.models.compat import CACHE
from diffattn.nn import DiffAttentionV1
from oracle import loop_attention, rules

both = pytest.mark.parametrize("attention", ["v1", "v2"])
every_implementation = pytest.mark.parametrize("implementation", ["diffattn", "sdpa", "eager"])


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def llama(hidden_size=64, heads=8, kv_heads=4, **fields):
    return LlamaConfig(
        vocab_size=97, hidden_size=hidden_size, intermediate_size=96, num_hidden_layers=2, num_attention_heads=heads,
        num_key_value_heads=kv_heads, bos_token_id=None, eos_token_id=None, pad_token_id=0, **fields,
    )  # fmt: skip


def build(attention, implementation="diffattn", base=None, **overrides):
    """A model with weights large enough that a wrong mask or position shows."""
    torch.manual_seed(0)
    model = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(base or llama(), attention, **overrides))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.normal_(std=0.15)
    model.set_attn_implementation(implementation)
    return model.eval()


def tokens(*shape, seed=1):
    return torch.randint(1, 97, shape, generator=torch.Generator().manual_seed(seed))


def differs(got, expected):
    return ((got - expected).norm() / expected.norm()).item()


def assert_same(got, expected):
    """Equal but for float32's rounding through the layers; a key too many or too few shows at 1e-2 and more."""
    assert got.shape == expected.shape
    assert differs(got, expected) < 1e-5


def in_pieces(model, ids, size, cache):
    """Logits of `ids` given `size` at a time to one cache."""
    return torch.cat([model(piece, **{CACHE: cache}).logits for piece in ids.split(size, dim=1)], dim=1)


CACHES = {
    "dynamic": lambda config: DynamicCache(config=config),
    "static": lambda config: StaticCache(config=config, max_cache_len=31),
    "growing": lambda _: GrowingCache(),
}
every_cache = pytest.mark.parametrize("kind", CACHES)


@every_implementation
@both
def test_packed_documents_with_a_cache_do_not_see_each_other(attention, implementation):
    """Two documents in one row, `use_cache` at its default, so that a cache is made; reported of Transformers."""
    model = build(attention, implementation)
    ids, positions = tokens(1, 11), torch.tensor([[*range(6), *range(5)]])
    assert model.config.use_cache
    packed = model(ids, position_ids=positions).logits
    assert_same(packed[:, 6:], model(ids[:, 6:]).logits)
    assert_same(packed[:, :6], model(ids[:, :6]).logits)
    assert differs(model(ids).logits[:, 6:], packed[:, 6:]) > 1e-2


def test_lambda_missing_from_a_checkpoint_is_set_when_built_on_meta():
    """from_pretrained builds on meta, the checkpoint lacks lambda; reported of Transformers, timm, dinov2 issue 476."""
    whole = build("v1")
    kept = {name: value for name, value in whole.state_dict().items() if "lambda" not in name}
    loaded = DiffTransformerForCausalLM.from_pretrained(None, config=copy.deepcopy(whole.config), state_dict=kept)
    for layer in (block.self_attn for block in loaded.model.layers):
        assert 0 < abs(layer.lambda_value().item() - layer.lambda_init) < 1
        assert torch.equal(layer.q_proj.weight, whole.model.layers[layer.layer_idx].self_attn.q_proj.weight)


@every_implementation
@both
def test_decoding_with_a_rolling_cache_of_4_equals_the_whole(attention, implementation):
    """Window 4 over 10 tokens: row i sees i-3 to i, and a cache that keeps only those gives the same."""
    sliding = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 4}
    model, ids = build(attention, implementation, **sliding), tokens(1, 10)
    whole = model(ids, use_cache=False).logits
    other = ids.clone()
    other[0, 0] = ids[0, 0] % 96 + 1
    changed = (model(other, use_cache=False).logits - whole).norm(dim=-1)[0] > 1e-3 * whole.norm(dim=-1)[0]
    assert changed[6]  # two layers, three keys back in each
    assert not changed[7:].any()
    cache = DynamicCache(config=model.config)
    assert_same(in_pieces(model, ids, 1, cache), whole)
    assert all(layer.keys.shape[2] < 4 for layer in cache.layers)


@every_cache
@both
def test_one_prefix_goes_on_with_two_suffixes(attention, kind):
    """A prefix prefilled once, two suffixes; reported as vLLM issue 20702."""
    model, prefix = build(attention), tokens(1, 10)
    cache = CACHES[kind](model.config)
    model(prefix, **{CACHE: cache})
    for seed in (2, 3):
        suffix = tokens(1, 6, seed=seed)
        continued = model(suffix, **{CACHE: copy.deepcopy(cache)}).logits
        assert_same(continued, model(torch.cat([prefix, suffix], dim=1)).logits[:, 10:])


@every_cache
@both
def test_prefill_in_chunks_of_7_equals_one_prefill(attention, kind):
    """24 tokens, 7 at a time; reported as vLLM issue 23414."""
    model, ids = build(attention), tokens(1, 24)
    assert_same(in_pieces(model, ids, 7, CACHES[kind](model.config)), model(ids, use_cache=False).logits)


@every_implementation
@both
def test_attention_dropout_is_off_in_evaluation(attention, implementation):
    """Dropout 0.5, eval, two calls; reported as pytorch issue 124464."""
    model, ids = build(attention, implementation, llama(attention_dropout=0.5)), tokens(1, 9)
    assert not torch.equal(model.train()(ids).logits, model(ids).logits)
    first = model.eval()(ids).logits
    assert torch.equal(model(ids).logits, first)
    assert torch.equal(build(attention, implementation)(ids).logits, first)


@every_implementation
@both
def test_static_cache_is_sized_by_head_dim(attention, implementation):
    """Hidden 64, 4 heads, head_dim 32 and not 16, static cache; reported as DeepSpeed issue 8389."""
    model, ids = build(attention, implementation, llama(heads=4, kv_heads=2, head_dim=32)), tokens(2, 9)
    cache = StaticCache(config=model.config, max_cache_len=31)
    assert_same(in_pieces(model, ids, 4, cache), model(ids, use_cache=False).logits)
    kv_heads, width = (1, 64) if attention == "v1" else (2, 32)  # V1: a pair of keys in one, of the same bytes
    assert cache.layers[0].keys.shape == cache.layers[0].values.shape == (2, kv_heads, 31, width)


@pytest.mark.parametrize("implementation", ["diffattn", "eager"])
@both
def test_attentions_are_the_signed_map(attention, implementation):
    """output_attentions: rows sum to 1 - lambda; Transformers' DiffLlama returns the raw maps of both halves."""
    model = build(attention, implementation)
    with model.record_lambda():
        attentions = model(tokens(1, 6), output_attentions=True).attentions
    for layer, weights in zip(model.model.layers, attentions, strict=True):
        lam = layer.self_attn.recorded_lambda
        assert weights.shape == (1, layer.self_attn.num_heads, 6, 6)
        torch.testing.assert_close(weights.sum(-1), (1 - lam).expand(1, layer.self_attn.num_heads, 6))
        assert (weights < 0).any()
        assert not weights.triu(1).any()


@every_implementation
@both
def test_static_cache_longer_than_an_unpadded_prompt(attention, implementation):
    """Static cache of 31, prompt of 12, no padding: the mask may come as None, and the buffer's end must not count."""
    model, ids = build(attention, implementation), tokens(1, 12)
    caches = [CACHES[kind](model.config) for kind in ("static", "dynamic")]
    static, dynamic = (model(ids, **{CACHE: cache}).logits for cache in caches)
    assert_same(static, dynamic)
    for seed in (5, 6):
        static, dynamic = (model(tokens(1, 1, seed=seed), **{CACHE: cache}).logits for cache in caches)
        assert_same(static, dynamic)
    assert caches[0].layers[0].keys.shape[2] == 31
    settings = {"max_new_tokens": 5, "do_sample": False, "disable_compile": True}
    assert torch.equal(model.generate(ids, cache_implementation="static", **settings), model.generate(ids, **settings))


def test_width_768_of_12_heads_becomes_v1_with_maps_of_64():
    """A baseline of width 768 and 12 heads as V1: 6 heads with values of 128; nanoGPT issue 567 halves twice."""
    config = DiffTransformerConfig.from_baseline(llama(768, 12, 12), "v1")
    assert (config.map_dim, config.num_output_heads, config.head_dim) == (64, 6, 128)
    layer = DiffTransformerForCausalLM(config).model.layers[0].self_attn
    assert (layer.map_dim, layer.num_heads, layer.value_dim, layer.scaling) == (64, 6, 128, 1 / 8)


def test_width_36_with_4_heads_is_refused_by_the_configuration():
    """Width 36, 4 heads: timm's late reshape error; here the configuration itself is refused."""
    for attention, said in (("v1", r"^hidden_size: 36 .* 8 "), ("v2", r"^map_dim: .* even .* 9$")):
        with pytest.raises(ValueError, match=said):
            DiffTransformerConfig(attention=attention, hidden_size=36, num_attention_heads=8)  # two maps a head


def test_qwen_of_14_heads_and_2_kv_heads_as_v1():
    """Width 896, 14 heads, 2 KV heads (Qwen2.5-0.5B) as V1: 7 heads of 64, all on the one pair of keys."""
    qwen = Qwen2Config(
        vocab_size=97, hidden_size=896, intermediate_size=96, num_hidden_layers=1, num_attention_heads=14,
        num_key_value_heads=2,
    )  # fmt: skip
    config = DiffTransformerConfig.from_baseline(qwen, "v1")
    assert (config.num_output_heads, config.num_key_value_heads, config.map_dim, config.head_dim) == (7, 1, 64, 128)
    layer = DiffTransformerForCausalLM(config).double().model.layers[0].self_attn
    assert isinstance(layer, DiffAttentionV1)
    projected = layer.project(torch.randn(1, 4, 896, dtype=torch.float64))
    assert (projected.q.shape, projected.k.shape, projected.v.shape) == ((1, 14, 4, 64), (1, 1, 4, 128), (1, 1, 4, 128))
    by_hand = loop_attention(projected.q[:, 0::2], projected.q[:, 1::2], *projected[1:], rules(4, 4))
    torch.testing.assert_close(layer.attend(projected), by_hand, rtol=1e-10, atol=1e-11)


def test_smollm_of_9_heads_and_3_kv_heads_as_v1_is_refused_and_v2_named():
    """9 heads, 3 KV heads (SmolLM): nothing to pair for V1, while V2 takes it."""
    with pytest.raises(ValueError, match=r"^attention: 'v1' .* 9 and 3; 'v2' works"):
        DiffTransformerConfig.from_baseline(llama(576, 9, 3), "v1")
    model = build("v2", base=llama(576, 9, 3))
    assert (model.config.num_output_heads, model.config.num_key_value_heads, model.config.map_dim) == (9, 3, 64)
    assert_same(in_pieces(model, tokens(1, 9), 1, CACHES["dynamic"](model.config)), model(tokens(1, 9)).logits)
