"""Where each token stands: its number in its document, the rotation that follows from it, and which document it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from diffattn.models.configuration import DiffTransformerConfig

__all__ = ["rotary_embedding", "same_document", "token_positions"]


def rotary_embedding(config: DiffTransformerConfig) -> LlamaRotaryEmbedding | None:
    """Turns the width of one map, while `head_dim` is what the attention call sees; None without positions."""
    if not config.rotary:
        return None
    rotary = copy.copy(config)
    rotary.head_dim = config.map_dim
    return LlamaRotaryEmbedding(rotary)


def token_positions(config: DiffTransformerConfig, hidden: Tensor, attention_mask: Any, cache: Cache | None) -> Tensor:
    """Positions `[B or 1, T]` of tokens that come without: they follow what the cache holds.

    Padding may be counted, since a rotation knows distances alone. Where queries are scaled by the keys that they see
    it is not, as in generation.
    """
    seen = 0 if cache is None else cache.get_seq_length()
    positions = torch.arange(hidden.shape[1], device=hidden.device) + seen
    if config.log_n_length is None or not isinstance(attention_mask, Tensor) or attention_mask.ndim != 2:
        return positions.unsqueeze(0)
    return (attention_mask.long().cumsum(1) - 1).clamp(min=0)[:, positions]


def same_document(segments: Tensor) -> Callable:
    """A mask function of transformers: attention only where query and key have the same number in `segments`."""
    last = segments.shape[1] - 1

    def allowed(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return segments[batch, query] == segments[batch, key.clamp(max=last)]

    return allowed
