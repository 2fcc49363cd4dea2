"""The few places where supported transformers versions differ."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast

__all__ = ["CACHE", "held_cache", "update_cache"]

# `past_key_values` until 5.23, `cache` from 5.24 on: an argument of forward and of generate, and a field of outputs.
CACHE = "cache" if "cache" in {field.name for field in fields(BaseModelOutputWithPast)} else "past_key_values"


def held_cache(cache: Any, past_key_values: Any, kwargs: dict[str, Any]) -> tuple[Cache | None, dict[str, Any]]:
    """The cache that was given under either name, and what else is to be passed on.

    Before 5.24, `cache` is the name under which continuous batching hands its paged cache to the attention function.
    """
    if CACHE == "cache" or cache is None or isinstance(cache, Cache):
        return (past_key_values if cache is None else cache), kwargs
    return past_key_values, {**kwargs, "cache": cache}


def update_cache(
    cache: Cache, key: Tensor, value: Tensor, layer_idx: int, kwargs: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Stores a layer's new keys and values; returns all that the cache holds for it."""
    accepted = {"kwargs": kwargs} if CACHE == "cache" else {}
    return cache.update(key, value, layer_idx, **accepted)
