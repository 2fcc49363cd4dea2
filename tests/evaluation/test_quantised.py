from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import (
    AttentionInterface,
    FalconConfig,
    FalconForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward

from diffattn.errors import UserError
from diffattn.evaluation import recorded_scores
from diffattn.evaluation.effects import Sample
from diffattn.evaluation.quantised import (
    QuantisedConfig,
    measure,
    noisy_embeddings,
    quantised_cache,
    quantised_logits,
    rounded,
)
from diffattn.evaluation.sequence_losses import sequence_losses
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from planted_finder import examples, finder

BODY = {
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
TOKENS = np.random.default_rng(0).integers(0, 40, size=(5, 19))
NAMES = ["llama", "gemma2", "softmax", "v1", "v2"]


def made(name):
    torch.manual_seed(0)
    if name == "llama":
        model = LlamaForCausalLM(LlamaConfig(**BODY))
    elif name == "gemma2":
        fields = {"head_dim": 6, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
        model = Gemma2ForCausalLM(Gemma2Config(**BODY, **fields, attn_logit_softcapping=3.0))
    else:
        fields = {"map_dim": 6, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5}
        model = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(LlamaConfig(**BODY), name, **fields))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.4)
    return model.eval()


def test_rounding_by_hand():
    row = torch.tensor([[7.0, -3.4, 1.5, 0.49, -torch.inf], [0.0, 0.0, 0.0, 0.0, -torch.inf]])
    assert rounded(row, bits=4)[0].tolist() == [7, -3, 2, 0, -math.inf]  # 7 steps of 1
    assert rounded(row, bits=2)[0].tolist() == [7, 0, 0, 0, -math.inf]  # 1 step of 7
    assert rounded(row, bits=8)[1].tolist() == [0, 0, 0, 0, -math.inf]
    half = rounded(torch.tensor([1.0, 0.3], dtype=torch.bfloat16), bits=3)
    assert (half.dtype, half.tolist()) == (torch.bfloat16, [1.0, torch.tensor(1 / 3).bfloat16().item()])


def test_the_softmax_over_two_keys_by_hand():
    """One head, nothing rotated: the last query scores 1 and 0.6 in 3 bits, which are 1 and 2/3."""
    config = LlamaConfig(
        **{**BODY, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 24, "num_hidden_layers": 1}
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        layer = model.model.layers[0].self_attn
        model.model.rotary_emb.inv_freq.zero_()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            getattr(layer, name).weight.copy_(torch.eye(24))
        layer.q_proj.weight.mul_(24**0.5)
        hidden = torch.zeros(1, 2, 24)
        hidden[0, 0, :2], hidden[0, 1, :2] = torch.tensor([0.6, 0.8]), torch.tensor([1.0, 0.0])
        position = model.model.rotary_emb(hidden, torch.arange(2)[None])
        with quantised_logits(model, 3):
            out = layer(hidden, position_embeddings=position, attention_mask=None)[0]
    weight = math.exp(2 / 3) / (math.exp(2 / 3) + math.e)
    assert out[0, 1, :2].tolist() == pytest.approx([0.6 * weight + 1 - weight, 0.8 * weight], rel=1e-6)
    assert out[0, 0, :2].tolist() == pytest.approx([0.6, 0.8], rel=1e-6)


@pytest.mark.parametrize("block", [100, 1 << 23])
@pytest.mark.parametrize("name", NAMES)
def test_more_bits_come_ever_nearer_to_the_model_itself(name, block, monkeypatch):
    monkeypatch.setattr(recorded_scores, "_BLOCK", block)
    model = made(name)
    plain = sequence_losses(model, TOKENS)
    for disturb in (quantised_logits, quantised_cache):
        errors = []
        for bits in (3, 6, 10, 22):
            with disturb(model, bits):
                errors.append(np.abs(sequence_losses(model, TOKENS) - plain).max())
        assert errors[0] > 1e-2
        assert errors[0] > 2 * errors[1] > 4 * errors[2]
        assert errors[3] < 2e-5


@pytest.mark.parametrize("name", NAMES)
def test_rounded_keys_and_values_are_those_of_a_cache_that_holds_them_rounded(name):
    """The model's own attention, given rounded keys and values at its interface."""
    forward = eager_attention_forward if name == "gemma2" else sdpa_attention_forward

    def coarse(x):
        step = x.abs().amax(-1, keepdim=True) / 7
        return torch.round(x / step) * step

    def attention(module, query, key, value, mask, **kwargs):
        if name == "gemma2":
            mask = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        return forward(module, query, coarse(key), coarse(value), mask, **kwargs)

    def mask(**arguments):
        return sdpa_mask(**{**arguments, "allow_is_causal_skip": False})

    AttentionInterface.register("diffattn_tests_coarse", attention)
    AttentionMaskInterface.register("diffattn_tests_coarse", mask)
    model = made(name)
    with quantised_cache(model, 4):
        found = sequence_losses(model, TOKENS)
    model.set_attn_implementation("diffattn_tests_coarse")
    assert found == pytest.approx(sequence_losses(model, TOKENS), rel=1e-5)


class LargestTensor(TorchDispatchMode):
    """Elements of the largest tensor that any operator of torch gives."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.elements = max([self.elements, *sizes])
        return result


@pytest.mark.parametrize("disturb", [quantised_logits, quantised_cache])
@pytest.mark.parametrize("attention", ["v1", "v2"])
def test_no_tensor_grows_with_the_square_of_the_length(attention, disturb, monkeypatch):
    monkeypatch.setattr(recorded_scores, "_BLOCK", 1 << 14)
    model = made(attention)
    ids, sizes = torch.zeros(1, 1024, dtype=torch.long), []
    with torch.no_grad(), disturb(model, 8):
        for length in (256, 1024):
            with LargestTensor() as largest:
                model.base_model(ids[:, :length], use_cache=False)
            sizes.append(largest.elements)
    assert sizes[1] <= 4 * sizes[0] < 1024**2 / 8


def test_noise_of_the_embeddings_by_hand():
    model = made("v2")
    with torch.no_grad(), noisy_embeddings(model, 0.5, seed=3):
        ids = torch.from_numpy(TOKENS)
        both = torch.cat([model.get_input_embeddings()(ids[:2]), model.get_input_embeddings()(ids[2:])])
    table = model.get_input_embeddings().weight
    assert torch.equal(model.get_input_embeddings()(ids), table[ids])
    moved = (both - table[ids]) / table[ids].square().mean(-1, keepdim=True).sqrt()
    assert moved.std().item() == pytest.approx(0.5, rel=0.06)  # of 2,280 draws, four of their standard deviations
    with torch.no_grad(), noisy_embeddings(model, 0.5, seed=3):
        assert torch.equal(model.get_input_embeddings()(ids), both)
    assert not torch.allclose(moved[0], moved[1], atol=0.1)


@pytest.mark.parametrize("name", ["llama", "v1", "v2"])
def test_every_row_and_the_model_as_it_was(name):
    model = made(name).train()
    before = sequence_losses(model, TOKENS)
    config = QuantisedConfig(logit_bits=(8, 4), cache_bits=(3,), embedding_noise=(0.2,), seed=5)
    result = measure(model, Sample(tokens=TOKENS), config)
    assert [(row.part, row.bits, row.noise) for row in result.rows] == [
        ("logits", 8, None),
        ("logits", 4, None),
        ("cache", 3, None),
        ("embeddings", None, 0.2),
    ]
    with quantised_logits(model, 4):
        difference = sequence_losses(model, TOKENS) - before
    assert result.rows[1].effect.loss_difference.mean == pytest.approx(difference.mean(), rel=1e-9)
    assert result.loss == pytest.approx(before.mean())
    with noisy_embeddings(model, 0.2, 5):
        assert result.rows[3].effect.loss == pytest.approx(
            sequence_losses(model, TOKENS, batch_size=2).mean(), rel=1e-6
        )
    assert np.array_equal(sequence_losses(model, TOKENS), before)
    assert model.training
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("attention", ["softmax", "v2"])
def test_a_model_with_a_wide_margin_finds_its_facts_in_two_bits_and_not_in_loud_noise(attention):
    data = examples([[(key, (key + row) % 8) for key in range(6)] for row in range(4)], [[0, 3, 7]] * 4)
    config = QuantisedConfig(logit_bits=(4, 2), cache_bits=(4,), embedding_noise=(30.0,))
    result = measure(finder(attention), Sample(examples=data), config)
    assert (result.accuracy, result.loss) == (1, None)
    assert [row.effect.accuracy for row in result.rows][:3] == [1, 1, 1]
    assert result.rows[3].effect.accuracy < 0.6
    assert result.rows[3].effect.accuracy_difference.mean == result.rows[3].effect.accuracy - 1


def test_what_cannot_be_measured():
    fields = {"vocab_size": 40, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1}
    with pytest.raises(UserError, match="does not go through transformers' attention interface"):
        measure(FalconForCausalLM(FalconConfig(**fields)), Sample(tokens=TOKENS), QuantisedConfig())
    for fields, message in (
        ({"logit_bits": (8, 1)}, "logit_bits must be from 2 to 24"),
        ({"cache_bits": (32,)}, "cache_bits must be from 2 to 24"),
        ({"embedding_noise": (0.0,)}, "embedding_noise must be above 0"),
        ({"seed": -2}, "seed must be 0 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            QuantisedConfig(**fields)
