"""Whole models under `torch.export`, with a length that is not fixed."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import LlamaConfig

from diffattn.models import VARIANTS, DiffTransformerConfig, DiffTransformerForCausalLM

BASELINE = LlamaConfig(
    vocab_size=50,
    hidden_size=32,
    intermediate_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)

SINKS_AND_LOG_N = ("softmax", {"attention_sink": True, "log_n_length": 16})


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, attention_mask=None):
        return self.model(ids, attention_mask=attention_mask, use_cache=False).logits


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("attention", "fields"), [*((name, {}) for name in VARIANTS), SINKS_AND_LOG_N], ids=str)
def test_a_model_exports_with_a_dynamic_length(attention, fields, padded, strict):
    torch.manual_seed(0)
    module = Logits(
        DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(BASELINE, attention, **fields)).eval()
    )
    length = torch.export.Dim("length", min=8, max=64)

    def inputs(tokens):
        ids = torch.arange(2 * tokens).view(2, tokens) % 50
        padding = (torch.arange(tokens) >= torch.tensor([[0], [3]])).long()
        return (ids, padding) if padded else (ids,)

    shapes = ({1: length}, {1: length} if padded else None)
    program = torch.export.export(module, inputs(12), dynamic_shapes=shapes[: 1 + padded], strict=strict)
    for tokens in (12, 20, 33):
        torch.testing.assert_close(program.module()(*inputs(tokens)), module(*inputs(tokens)))
