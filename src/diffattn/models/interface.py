"""The operator as an attention implementation of transformers, under the name `diffattn`.

An engine's attention call gets one mask a layer. The stock mask would be Tq x Tk; ours says only what the operator
cannot know: which keys are padding, and how many keys of a preallocated cache are valid.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.utils.import_utils import is_tracing

from diffattn.ops import diff_attention, diff_attention_weights, softmax_attention

__all__ = ["IMPLEMENTATION", "KeyMask", "diffattn_attention", "diffattn_mask"]

IMPLEMENTATION = "diffattn"


class KeyMask(NamedTuple):
    """What `diffattn_mask` yields: True for keys that are not padding `[B, Tk]`, and valid keys a row `[B]`."""

    padding: Tensor | None
    k_lengths: Tensor | None


def diffattn_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    attention_mask: Tensor | None = None,
    device: torch.device | str = "cpu",
    **kwargs: Any,
) -> KeyMask | None:
    """A mask function of transformers: arguments as `transformers.masking_utils.sdpa_mask` takes them."""
    padding = _padding(attention_mask, kv_length, kv_offset)
    valid = q_offset + q_length - kv_offset
    if isinstance(valid, (int, torch.SymInt)) and valid == kv_length:
        return None if padding is None else KeyMask(padding, None)
    lengths = torch.ones(batch_size, dtype=torch.long, device=device) * valid  # a length being traced stays dynamic
    return KeyMask(padding, lengths.clamp(max=kv_length))


def _padding(attention_mask: Tensor | None, kv_length: int, kv_offset: int) -> Tensor | None:
    if attention_mask is None:
        return None
    mask = attention_mask.to(torch.bool)
    missing = kv_length + kv_offset - mask.shape[-1]
    mask = F.pad(mask, (0, missing), value=True) if missing > 0 else mask  # beyond it only the lengths decide
    mask = mask[:, kv_offset : kv_offset + kv_length]
    return None if not is_tracing(mask) and bool(mask.all()) else mask


def diffattn_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: KeyMask | Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    diff_lambda: Tensor | float | None = None,
    sliding_window: int | None = None,
    segment_ids: Tensor | None = None,
    is_causal: bool | None = None,
    output_attentions: bool | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """An attention function of transformers.

    Args:
        query: `[B, heads, Tq, D]`; with `diff_lambda` pairs of a signal map and a noise map, adjacent.
        key, value: as in `diffattn.diff_attention`.
        attention_mask: what `diffattn_mask` gave, or a bool `[B, 1 or H, Tq, Tk]` that holds all there is to hide.
        diff_lambda: lambda of the operator; None for ordinary attention.
        segment_ids: int `[B, Tq]`, the packed document of each token, while no earlier keys are cached.
        s_aux: sinks of ordinary attention, `[H]`, by transformers' name.

    Returns:
        The heads' outputs, already combined, `[B, Tq, H, Dv]`, and the signed map `[B, H, Tq, Tk]` where
        `output_attentions` is set.
    """
    sight = _sight(module, key, attention_mask, sliding_window, segment_ids, is_causal)
    if diff_lambda is None:
        out = softmax_attention(query, key, value, scale=scaling, dropout_p=dropout, sinks=s_aux, **sight)
        signed = _softmax_map(query, key, s_aux, scale=scaling, **sight) if output_attentions else None
    else:
        q1, q2 = query[:, 0::2], query[:, 1::2]
        out = diff_attention(q1, q2, key, value, diff_lambda, scale=scaling, dropout_p=dropout, **sight)
        maps = diff_attention_weights(q1, q2, key, diff_lambda, scale=scaling, **sight) if output_attentions else None
        signed = None if maps is None else maps.signed
    return out.transpose(1, 2), signed


def _softmax_map(query: Tensor, key: Tensor, sinks: Tensor | None, **given: Any) -> Tensor:
    """`[B, H, Tq, Tk]`; with sinks a row sums to what values of 1 would give."""
    weights = diff_attention_weights(query, query, key, 0.0, **given).signal
    if sinks is None:
        return weights
    return weights * softmax_attention(query, key, torch.ones_like(key[..., :1]), sinks=sinks, **given)


def _sight(
    module: nn.Module,
    key: Tensor,
    attention_mask: KeyMask | Tensor | None,
    window: int | None,
    segment_ids: Tensor | None,
    is_causal: bool | None,
) -> dict[str, Any]:
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    sight: dict[str, Any] = {"causal": causal, "window": window if causal else None}
    if isinstance(attention_mask, KeyMask):
        sight.update(mask=attention_mask.padding, k_lengths=attention_mask.k_lengths)
    elif attention_mask is not None:
        sight.update(causal=False, window=None, mask=attention_mask[..., : key.shape[2]])
    if segment_ids is not None:
        k_ids = F.pad(segment_ids, (0, key.shape[2] - segment_ids.shape[1]), value=-1)
        sight["segment_ids"] = (segment_ids, k_ids)
    return sight
