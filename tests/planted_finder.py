"""A model made by hand that finds facts exactly: no weight of it is drawn or trained.

Tokens: 0 begins every sequence, 1 says that there is no answer, then VALUES values, KEYS questions (one a key), and
KEYS * VALUES facts. At a question the one head scores MATCH for the fact of its key, SINK for the first token and 0 for
the others; the value moved there is read off by the output matrix. The rotation is so slow in the channels that are
used that positions change no score by 1e-6.
"""

from __future__ import annotations

import numpy as np
import torch
from transformers import LlamaConfig

from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.tasks import TokenExamples

KEYS, VALUES, WIDTH, MAP = 8, 8, 40, 32
BEGIN, NONE = 0, 1
VOCABULARY = 2 + VALUES + KEYS + KEYS * VALUES
MATCH, SINK = 40.0, 20.0
_FACT, _VALUE, _QUESTION, _OUT, _NO, _BEGIN = 0, 8, 16, 24, 32, 33  # channels of the hidden states
_KEY, _START = 8, 24  # channels of a map, where the rotation is slow


def value(index):
    return 2 + index


def question(key):
    return 2 + VALUES + key


def fact(key, index):
    return 2 + VALUES + KEYS + key * VALUES + index


def finder(attention="softmax", *, sharp=True):
    """The model; not sharp, its queries are zero and it attends to all keys alike. A noise map (v2) always does."""
    body = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        head_dim=MAP,
        max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": 1e16},
        bos_token_id=None,
        eos_token_id=None,
    )
    model = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(body, attention)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.zero_()
        _plant(model, sharp)
    return model


def _plant(model, sharp):
    table, layer, out = model.model.embed_tokens.weight, model.model.layers[0].self_attn, model.lm_head.weight
    table[BEGIN, _BEGIN] = 1
    for key in range(KEYS):
        table[question(key), _QUESTION + key] = 1
        for index in range(VALUES):
            table[fact(key, index), _FACT + key] = table[fact(key, index), _VALUE + index] = 1
    table /= table.norm(dim=1, keepdim=True).clamp(min=1)
    large = WIDTH**0.5  # of the one channel of a normalised question or first token; a fact's two are smaller by 2^-1/2
    for key in range(KEYS if sharp else 0):
        layer.q_proj.weight[_KEY + key, _QUESTION + key] = MATCH * layer.map_dim**0.5 * 2**0.5 / large**2
        layer.q_proj.weight[_START, _QUESTION + key] = SINK * layer.map_dim**0.5 / large**2
    for key in range(KEYS):
        layer.k_proj.weight[_KEY + key, _FACT + key] = 1
    layer.k_proj.weight[_START, _BEGIN] = 1
    for index in range(VALUES):
        layer.v_proj.weight[index, _VALUE + index] = 1
        layer.o_proj.weight[_OUT + index, index] = 1
        out[value(index), _OUT + index] = 1
    layer.v_proj.weight[VALUES, _BEGIN] = 0.5
    layer.o_proj.weight[_NO, VALUES] = 1
    out[NONE, _NO] = 1


def examples(facts, asked, false=None):
    """Sequences of the facts `[(key, value), ...]` and then questions `[key, ...]`, all of one size, a row each."""
    rows, columns = len(facts), len(facts[0])
    tokens = [
        [BEGIN, *(fact(*pair) for pair in row), *map(question, keys)] for row, keys in zip(facts, asked, strict=True)
    ]
    found = [
        [next((i for i, (k, _) in enumerate(row) if k == key), -1) for key in keys]
        for row, keys in zip(facts, asked, strict=True)
    ]
    answers = [[value(row[i][1]) if i >= 0 else NONE for i in at] for row, at in zip(facts, found, strict=True)]
    source = np.array(found)
    questions = source.shape[1]
    return TokenExamples(
        tokens=np.array(tokens),
        queries=np.tile(1 + columns + np.arange(questions), (rows, 1)),
        answers=np.array(answers),
        sources=np.where(source < 0, -1, source + 1),
        false_answers=np.full((rows, questions, 1), -1) if false is None else np.array(false),
        depths=np.where(source < 0, np.nan, source / max(1, columns - 1)),
    )
