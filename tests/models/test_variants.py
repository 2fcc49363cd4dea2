"""Variants of the models beside their defaults: the same by every way of decoding, padding, packing and saving."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM, StaticCache

from diffattn.models import VARIANTS, DiffTransformerConfig, DiffTransformerForCausalLM, GrowingCache, count_parameters
from diffattn.models.compat import CACHE
from small_models import assert_same, build, differs, left_padded, llama, tokens

SLIDING = {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "sliding_window": 5}
CASES = {
    **{f"{attention}, no positions": (attention, {"rotary": False}) for attention in VARIANTS},
    **{f"{attention}, log n": (attention, {"log_n_length": 6}) for attention in VARIANTS},
    "softmax, log n, windows": ("softmax", {"log_n_length": 6, **SLIDING}),
    **{f"v1, lambda a {kind}": ("v1", {"lambda_granularity": kind}) for kind in ("fixed", "head", "token")},
    **{f"v2, lambda a {kind}": ("v2", {"lambda_granularity": kind}) for kind in ("fixed", "head", "layer")},
    "v1, fixed, no norm": ("v1", {"lambda_granularity": "fixed", "lambda_init": [0.0, 0.5, 1.5], "head_norm": False}),
    "v1, token, no norm": ("v1", {"lambda_granularity": "token", "head_norm": False, "log_n_length": 6}),
    "softmax, sink": ("softmax", {"attention_sink": True}),
    "softmax, sink, windows": ("softmax", {"attention_sink": True, **SLIDING}),
    "softmax, sink, log n, no positions": ("softmax", {"attention_sink": True, "log_n_length": 6, "rotary": False}),
    "v2, log n, no positions": ("v2", {"log_n_length": 6, "rotary": False}),
}
every_case = pytest.mark.parametrize(("attention", "fields"), CASES.values(), ids=CASES)


def implementations(fields):
    """Those that serve the variant, ours first."""
    return ("diffattn", "eager") if fields.get("attention_sink") else ("diffattn", "sdpa", "eager")


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


@every_case
def test_it_is_another_model(attention, fields):
    plain, other = build(attention), build(attention, **fields)
    shapes = {name: parameter.shape for name, parameter in other.named_parameters()}
    same = {name: p for name, p in plain.named_parameters() if shapes.get(name) == p.shape}
    other.load_state_dict(same, strict=False)
    assert differs(other(tokens(1, 12)).logits, plain(tokens(1, 12)).logits) > 1e-3


@every_case
def test_every_implementation_gives_the_same(attention, fields):
    model = build(attention, **fields)
    ids, mask = left_padded()
    seen = mask.bool()
    expected = model(ids, attention_mask=mask).logits[seen]
    for implementation in implementations(fields)[1:]:
        model.set_attn_implementation(implementation)
        assert_same(model(ids, attention_mask=mask).logits[seen], expected)


@every_case
def test_left_padding_counts_for_nothing(attention, fields):
    for implementation in implementations(fields):
        model = build(attention, implementation, **fields)
        ids, mask = left_padded()
        padded = model(ids, attention_mask=mask).logits
        assert_same(padded[:1, 4:], model(ids[:1, 4:]).logits)
        assert_same(padded[1:], model(ids[1:]).logits)
        settings = {"max_new_tokens": 6, "do_sample": False, "disable_compile": True}
        batch = model.generate(ids, attention_mask=mask, **settings)
        assert torch.equal(batch[0, 9:], model.generate(ids[:1, 4:], **settings)[0, 5:])


@every_case
def test_every_cache_gives_what_the_whole_gives(attention, fields):
    model = build(attention, **fields)
    ids, mask = tokens(2, 14), torch.ones(2, 14, dtype=torch.long)
    mask[0, :3] = 0
    whole = model(ids, attention_mask=mask, use_cache=False).logits
    caches = [None, StaticCache(config=model.config, max_cache_len=21), GrowingCache()]
    for cache in caches if "layer_types" not in fields else caches[:2]:
        parts, end = [], 0
        for size in (6, 1, 4, 1, 2):
            end += size
            out = model(ids[:, end - size : end], attention_mask=mask[:, :end], use_cache=True, **{CACHE: cache})
            cache = getattr(out, CACHE)
            parts.append(out.logits)
        seen = mask.bool()
        assert_same(torch.cat(parts, dim=1)[seen], whole[seen])


@every_case
def test_packed_documents_are_alone(attention, fields):
    for implementation in implementations(fields):
        model = build(attention, implementation, **fields)
        ids, positions = tokens(1, 11), torch.tensor([[*range(6), *range(5)]])
        packed = model(ids, position_ids=positions).logits
        assert_same(packed[:, :6], model(ids[:, :6]).logits)
        assert_same(packed[:, 6:], model(ids[:, 6:]).logits)


@every_case
def test_saved_and_loaded(attention, fields, tmp_path):
    model = build(attention, **fields)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    for name, value in fields.items():
        assert getattr(loaded.config, name) == value
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name
    assert torch.equal(loaded(tokens(1, 8)).logits, model(tokens(1, 8)).logits)


@every_case
def test_new_weights_are_finite_when_built_on_meta(attention, fields):
    config = DiffTransformerConfig.from_baseline(llama(), attention, **fields)
    loaded = DiffTransformerForCausalLM.from_pretrained(None, config=copy.deepcopy(config), state_dict={})
    for name, parameter in loaded.named_parameters():
        assert parameter.isfinite().all(), name


@every_case
@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_counted_exactly(attention, fields, tied):
    config = DiffTransformerConfig.from_baseline(llama(), attention, **fields, tie_word_embeddings=tied)
    with torch.device("meta"):
        model = DiffTransformerForCausalLM(config)
    found = count_parameters(config)
    assert found.total == sum(parameter.numel() for parameter in model.parameters())
    layers = [layer.self_attn for layer in model.model.layers]
    assert found.attention == sum(parameter.numel() for layer in layers for parameter in layer.parameters())


@every_case
def test_every_parameter_learns_and_checkpointing_changes_nothing(attention, fields):
    model = build(attention, **fields).train()
    ids, mask = left_padded()
    grads = []
    with torch.enable_grad():
        for checkpointing in (False, True):
            if checkpointing:
                model.gradient_checkpointing_enable()
            model.zero_grad()
            model(ids, attention_mask=mask, labels=ids).loss.backward()
            grads.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    for name, grad in grads[0].items():
        assert grad.abs().max() > 0, name
        assert_same(grads[1][name], grad)


def test_without_positions_only_order_that_the_mask_makes_is_seen():
    """The last token of a one-layer model sees a set."""
    ids = tokens(1, 9)
    swapped = ids[:, [2, 0, 1, 3, 5, 4, 7, 6, 8]]
    model = build("softmax", rotary=False, num_hidden_layers=1)
    assert_same(model(swapped).logits[:, -1], model(ids).logits[:, -1])
    turned = build("softmax", num_hidden_layers=1)
    assert differs(turned(swapped).logits[:, -1], turned(ids).logits[:, -1]) > 1e-3


def test_at_its_length_log_n_leaves_a_query_as_it_is():
    plain, scaled = build("softmax", num_hidden_layers=1), build("softmax", num_hidden_layers=1, log_n_length=9)
    ids = tokens(1, 12)
    got, expected = scaled(ids).logits, plain(ids).logits
    assert_same(got[:, 8], expected[:, 8])
    assert all(differs(got[:, i], expected[:, i]) > 1e-4 for i in (3, 11))


def test_fields_of_an_own_baseline_are_kept():
    base = DiffTransformerConfig.from_baseline(llama(), "softmax", rotary=False, log_n_length=7)
    for attention in VARIANTS:
        config = DiffTransformerConfig.from_baseline(base, attention)
        assert (config.rotary, config.log_n_length, config.config_version) == (False, 7, 1)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"log_n_length": 1}, "log_n_length: expected a whole number of 2 or more, or None, got 1"),
        ({"attention_sink": True}, "attention_sink: expected False for attention='v2', got True"),
        ({"attention_sink": True, "attention": "gated"}, "attention_sink: expected False for attention='gated'"),
    ],
)
def test_fields_that_do_not_fit(fields, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        DiffTransformerConfig(**fields)
