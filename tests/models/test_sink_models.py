"""Models with learned sinks: which engines take them, their values when new, and what their maps show."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.models.sinks import check_takes_sinks
from small_models import assert_same, build, llama, tokens


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def test_engines_that_would_drop_sinks_are_refused():
    model = build("softmax", "sdpa", attention_sink=True)
    said = r"^attn_implementation: expected one that takes attention sinks .* got 'sdpa'"
    with pytest.raises(ValueError, match=said):
        model(tokens(1, 5))
    for name, function in {"flash_attention_2": flash_attention_forward, "other": sdpa_attention_forward}.items():
        with pytest.raises(ValueError, match=f"got '{name}'$"):
            check_takes_sinks(name, function)
    for name in ("flex_attention", "diffattn", "paged|eager"):
        check_takes_sinks(name, ALL_ATTENTION_FUNCTIONS[name])
    check_takes_sinks("flash_attention_4", flash_attention_forward)


def test_continuous_batching_takes_sinks_by_eager_attention():
    model = build("softmax", "eager", attention_sink=True, log_n_length=6)
    prompts = [tokens(9)[:7].tolist(), tokens(5, seed=4).tolist()]
    settings = {"max_new_tokens": 5, "do_sample": False}
    small = ContinuousBatchingConfig(num_blocks=8, max_batch_tokens=64)
    config = GenerationConfig(**settings, eos_token_id=-1, pad_token_id=0)
    outputs = model.generate_batch(inputs=prompts, generation_config=config, continuous_batching_config=small)
    got = {tuple(out.prompt_ids): out.generated_tokens for out in outputs.values()}
    for prompt in prompts:
        expected = model.generate(torch.tensor([prompt]), **settings)[0, len(prompt) :]
        assert got[tuple(prompt)] == expected.tolist()


def test_new_sinks_are_0_and_loaded_ones_stay():
    config = DiffTransformerConfig.from_baseline(llama(), "softmax", attention_sink=True)
    model = DiffTransformerForCausalLM(config)
    layers = [layer.self_attn for layer in model.model.layers]
    assert all(torch.equal(layer.sinks, torch.zeros(8)) for layer in layers)
    layers[1].sinks.fill_(3.0)
    kept = {name: value for name, value in model.state_dict().items() if "layers.0" not in name}
    loaded = DiffTransformerForCausalLM.from_pretrained(None, config=copy.deepcopy(config), state_dict=kept)
    assert [layer.self_attn.sinks.mean().item() for layer in loaded.model.layers] == [0.0, 3.0, 0.0]


@pytest.mark.parametrize("implementation", ["diffattn", "eager"])
def test_maps_show_what_the_sink_takes(implementation):
    model = build("softmax", implementation, attention_sink=True)
    ids = tokens(1, 6)
    maps = model(ids, output_attentions=True).attentions
    expected = build("softmax", "eager", attention_sink=True)(ids, output_attentions=True).attentions
    for got, want in zip(maps, expected, strict=True):
        assert_same(got, want)
        assert got.sum(-1).max() < 1


def test_a_sink_goes_with_softmax_alone():
    base = DiffTransformerConfig.from_baseline(llama(), "softmax", attention_sink=True)
    assert DiffTransformerConfig.from_baseline(base, "softmax").attention_sink
    assert not DiffTransformerConfig.from_baseline(base, "v1").attention_sink
    matched = DiffTransformerConfig.from_baseline(llama(), "softmax", match_parameters=True, attention_sink=True)
    assert matched.unmatched_parameters == 3 * 8
