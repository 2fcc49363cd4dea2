"""Tiny models of several families, ours among them, whose attention differs from key to key by several nats."""

from __future__ import annotations

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from diffattn.evaluation.recorded_scores import learned_sinks
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM

VOCABULARY, LENGTH, WINDOW = 61, 23, 9
BODY = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 8192,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
GEMMA = {
    **BODY,
    "sliding_window": WINDOW,
    "attn_logit_softcapping": 2.0,
    "query_pre_attn_scalar": 5,
    "layer_types": ["sliding_attention", "full_attention"],
}
GPT_OSS = {
    **BODY,
    "sliding_window": WINDOW,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}
FOREIGN = {
    "llama": (LlamaForCausalLM, LlamaConfig, BODY),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, BODY),
    "mistral": (MistralForCausalLM, MistralConfig, {**BODY, "sliding_window": WINDOW}),
    "gemma2": (Gemma2ForCausalLM, Gemma2Config, GEMMA),
    "gpt_oss": (GptOssForCausalLM, GptOssConfig, GPT_OSS),
    "gpt2": (GPT2LMHeadModel, GPT2Config, {"vocab_size": VOCABULARY, "n_embd": 32, "n_head": 4, "n_layer": 2}),
}
OURS = ("softmax", "gated", "v1", "v2")


def loud(model):
    """Weights large enough that scores differ by several nats, and sinks that take a part of the attention."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 or name.endswith("sinks"):
                parameter.normal_(std=2.0 if name.endswith("sinks") else 0.3)
    return model.eval()


def foreign(name):
    kind, config, fields = FOREIGN[name]
    model = loud(kind(config(**fields)))
    model.set_attn_implementation("eager")
    return model


def ours(attention, **fields):
    config = DiffTransformerConfig.from_baseline(LlamaConfig(**BODY), attention, **fields)
    return loud(DiffTransformerForCausalLM(config))


def tokens(length=LENGTH, batch=2):
    return torch.randint(1, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(3))


def with_sink(layer, scores):
    """The scores, and a last one for the layer's learned sink where it has one."""
    if (sinks := learned_sinks(layer)) is None:
        return scores
    shape = (*scores.shape[:-1], 1)
    return torch.cat([scores, sinks.detach().view(1, -1, *[1] * (scores.ndim - 2)).expand(shape)], -1)


def assert_softmax(scores, weights):
    """Log-weights equal to 1e-5 where eager's float32 weight has digits to compare; nothing where it is 0."""
    assert scores.dtype == torch.float32
    logs = scores.double().log_softmax(-1)[..., : weights.shape[-1]]
    seen = weights > 0
    assert (logs.exp()[~seen] < 1e-30).all()
    torch.testing.assert_close(logs[seen], weights[seen].double().log(), rtol=1e-5, atol=1e-5)
