"""Small models of every variant, with weights large enough that a wrong mask, position or lambda shows."""

from __future__ import annotations

import torch
from transformers import LlamaConfig

from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM


def llama(**kwargs):
    fields = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4, **kwargs}
    return LlamaConfig(
        vocab_size=97, intermediate_size=96, num_hidden_layers=3, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=None, pad_token_id=0, **fields,
    )  # fmt: skip


def build(attention, implementation="diffattn", **overrides):
    """Matrices of standard deviation 0.15; learned numbers of a head, 0 or 1 when new, of 1 around there."""
    torch.manual_seed(0)
    model = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(llama(), attention, **overrides)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("sinks", "lambda_logit", "lambda_proj.bias")):
                parameter.normal_()
            elif parameter.ndim == 2 and name.endswith("weight"):
                parameter.normal_(std=0.15)
    model.set_attn_implementation(implementation)
    return model


def tokens(*shape, seed=1):
    return torch.randint(1, 97, shape, generator=torch.Generator().manual_seed(seed))


def left_padded():
    ids, mask = tokens(2, 9), torch.ones(2, 9, dtype=torch.long)
    mask[0, :4] = 0
    return ids, mask


def differs(got, expected):
    return ((got - expected).norm() / expected.norm()).item()


def assert_same(got, expected):
    """Equal but for float32's rounding through all layers; a wrong mask, position or lambda shows at 1e-3 and more."""
    assert got.shape == expected.shape
    assert differs(got, expected) <= 1e-5
