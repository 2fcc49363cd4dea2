"""Models of one layer, made by hand, whose maps are known exactly: positions play no part in them.

Token t is the unit vector t, so that weight [d, t] of a projection says what channel d of that token's query or key is.
"""

from __future__ import annotations

from functools import partial

import torch

from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM

TOKENS = 16
FILLER, DECOY, ANSWER, ASKED = 1, 2, 3, 4
LAM = {"v1": 0.25, "v2": 0.5}  # of V1 fixed, of V2 the sigmoid of 0


def planted(attention: str, first: int | None = None, second: int | None = None) -> DiffTransformerForCausalLM:
    """A query at a token ASKED attends to all tokens `first` by the first map, and to all `second` by the second.

    None for attention that is the same to all; so is that of every other query.
    """
    fixed = {"lambda_init": LAM["v1"], "lambda_granularity": "fixed", "head_norm": False} if attention == "v1" else {}
    config = DiffTransformerConfig(
        attention=attention,
        vocab_size=TOKENS,
        hidden_size=TOKENS,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2 if attention == "softmax" else 4,
        map_dim=4 if attention == "v1" else 8,
        max_position_embeddings=64,
        **fixed,
    )
    model = DiffTransformerForCausalLM(config).eval()
    layer = model.model.layers[0].self_attn
    with torch.no_grad():
        for parameter in (layer.q_proj.weight, layer.k_proj.weight, *lambdas(layer)):
            parameter.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(TOKENS))
        keys = layer.k_proj.weight.view(config.num_key_value_heads, -1, TOKENS)
        for channel, token in enumerate((first, second)):
            maps = layer.q_proj.weight.view(2, layer.MAPS, layer.map_dim, TOKENS)
            if token is not None:
                # The channel of a map's own key (V1), or a channel of the key that only this map asks for (V2).
                at = channel if layer.KEYS == 1 else channel * layer.map_dim
                maps[:, channel, at % layer.map_dim, ASKED] = 1e3
                keys[:, at, token] = 1.0
    model.model.rotary_emb.forward = partial(_no_rotation, layer.map_dim)
    return model


def lambdas(layer):
    return [p for name, p in layer.named_parameters() if name.startswith("lambda")]


def _no_rotation(width, hidden, position_ids):
    shape = (*position_ids.shape, width)
    return torch.ones(shape), torch.zeros(shape)
