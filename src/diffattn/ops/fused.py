"""Ordinary attention on torch's fused kernels, called so that it stays fused and never repeats K or V.

Several groups of query heads share one set of keys and values. What is called depends on what a query may see:

- the same keys for every query (decoding): the query group of a KV head is folded into the query length, all groups
  in one call, so that K and V are read once;
- causal, Tq = Tk: one causal call a member of the group, on K and V as they are;
- causal, Tq < Tk, on the CPU: the keys before the last Tq in a folded call, the rest as the square, joined by their
  log-sum-exps (`rectangle.py`), so that no Tq x Tk matrix is built; on a GPU torch's lower right alignment;
- anything else: a boolean mask, `[B, 1 or H, Tq, Tk]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right
from torch.utils._python_dispatch import _disable_current_modes

from diffattn.ops.masks import visible, zero_unseen
from diffattn.ops.rectangle import causal_rectangle
from diffattn.ops.sharing import share
from diffattn.ops.types import Sight

__all__ = ["fused_attention", "fused_cost"]


def fused_attention(
    queries: Sequence[Tensor], k: Tensor, v: Tensor, sight: Sight, scale: float, dropout_p: float = 0.0
) -> list[Tensor]:
    """`softmax(q k^T scale) v` for each of `queries`.

    Args:
        queries: tensors `[B, H_i, Tq, W]`, Hkv divides every H_i.
        k: `[B, Hkv, Tk, W]`.
        v: `[B, Hkv, Tk, Dv]`.
        sight: which keys a query may see.

    Returns:
        One `[B, H_i, Tq, Dv]` a tensor of queries, in their dtype; rows that see nothing are 0.
    """
    k, v, sight = _drop_unread_keys(k, v, sight)
    if 0 in (sight.q_length, sight.k_length, k.shape[0]):
        return [_nothing_seen(q, k, v) for q in queries]
    k, v, *queries = (_unit_stride(x) for x in (k, v, *queries))
    blind = sight.q_length - sight.k_length
    if sight.causal and not sight.needs_mask and blind > 0:
        rest = fused_attention(
            [q[:, :, blind:] for q in queries],
            k,
            v,
            replace(sight, q_length=sight.k_length),
            scale,
            dropout_p,
        )
        return [F.pad(out, (0, 0, blind, 0)) for out in rest]
    width, value_width = k.shape[3], v.shape[3]
    if width == value_width:
        return _equal_widths(queries, k, v, sight, scale, dropout_p)
    pieces = [F.pad(piece, (0, width - piece.shape[3])) for piece in v.split(width, dim=3)]
    parts = [_equal_widths(queries, k, piece, sight, scale, dropout_p) for piece in pieces]
    return [torch.cat(outs, dim=3)[..., :value_width] for outs in zip(*parts, strict=True)]


def fused_cost(sight: Sight, dropout_p: float = 0.0) -> str | None:
    """What a call builds beyond linear memory, in words; None where nothing."""
    if dropout_p:
        return "dropout: torch's kernels build the maps, B x H x Tq x Tk each"
    if not sight.needs_mask or sight.same_for_all_queries:
        return None
    return "builds a boolean mask, B x Tq x Tk, or B x H x Tq x Tk where it differs by head"


def _drop_unread_keys(k: Tensor, v: Tensor, sight: Sight) -> tuple[Tensor, Tensor, Sight]:
    """Where all rows hold equally many valid keys, the rest of a static cache is cut off, without a copy.

    Reading the lengths is free on the CPU; elsewhere it would wait for the device, and tracing forbids it.
    """
    if sight.k_lengths is None or sight.k_lengths.device.type != "cpu" or torch.compiler.is_compiling():
        return k, v, sight
    lengths = set(sight.k_lengths.tolist())
    if len(lengths) != 1:
        return k, v, sight
    n = min(max(lengths.pop(), 0), sight.k_length)
    mask = sight.mask if sight.mask is None or sight.mask.shape[3] == 1 else sight.mask[..., :n]
    segments = sight.segment_ids and (sight.segment_ids[0], sight.segment_ids[1][:, :n])
    return (
        k[:, :, :n],
        v[:, :, :n],
        replace(sight, k_length=n, mask=mask, segment_ids=segments, k_lengths=None),
    )


def _nothing_seen(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Zeros `[B, H, Tq, Dv]` that still hang on the graph, so that a backward finds zero gradients."""
    return q.new_zeros(*q.shape[:3], v.shape[3]) + sum(x[..., :0].sum() for x in (q, k, v))


def _unit_stride(x: Tensor) -> Tensor:
    """The kernels read rows without gaps; for any other layout torch would build the maps."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _equal_widths(
    queries: Sequence[Tensor], k: Tensor, v: Tensor, sight: Sight, scale: float, dropout_p: float
) -> list[Tensor]:
    if sight.needs_mask:
        return _masked(queries, k, v, sight, scale, dropout_p)
    if sight.same_for_all_queries:
        return _folded(queries, k, v, None, scale, dropout_p)
    if sight.q_length < sight.k_length:
        if k.device.type == "cpu" and not dropout_p:
            return _ungroup(causal_rectangle(_group(queries, k.shape[1]), k, v, scale), queries)
        if k.is_cuda and not dropout_p and not torch.compiler.is_compiling():
            return _lower_right(queries, k, v, scale)
        return _masked(queries, k, v, sight, scale, dropout_p)
    return _by_member(queries, k, v, None, scale, dropout_p, causal=True)


def _masked(
    queries: Sequence[Tensor], k: Tensor, v: Tensor, sight: Sight, scale: float, dropout_p: float
) -> list[Tensor]:
    seen = visible(sight, k.device)
    assert seen is not None
    k, v = zero_unseen(k, seen), zero_unseen(v, seen)
    sighted = seen.any(dim=-1, keepdim=True)
    # A row that sees nothing attends to all with a query of 0, and is set to 0 afterwards.
    allowed = seen | ~sighted
    queries = [q.masked_fill(~sighted, 0.0) for q in queries]
    if sight.same_for_all_queries and seen.shape[1] == 1:
        outs = _folded(queries, k, v, allowed, scale, dropout_p)
    else:
        outs = _by_member(queries, k, v, allowed, scale, dropout_p)
    return [out.masked_fill(~sighted, 0.0) for out in outs]


def _folded(
    queries: Sequence[Tensor], k: Tensor, v: Tensor, mask: Tensor | None, scale: float, dropout_p: float
) -> list[Tensor]:
    """All groups as more queries of their KV head: one call that reads K and V once."""
    grouped = _group(queries, k.shape[1])
    out = F.scaled_dot_product_attention(grouped.flatten(2, 3), k, v, mask, dropout_p, scale=scale)
    return _ungroup(out.view(*grouped.shape), queries)


def _by_member(
    queries: Sequence[Tensor],
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    dropout_p: float,
    causal: bool = False,
) -> list[Tensor]:
    """One call a member of the query group, on K and V as they are; on the CPU `enable_gqa` would repeat them."""

    def attend(q: Tensor, key: Tensor, value: Tensor, seen: Tensor | None) -> Tensor:
        grouped = q.shape[1] != key.shape[1]
        return F.scaled_dot_product_attention(
            q, key, value, seen, dropout_p, is_causal=causal, scale=scale, enable_gqa=grouped
        )

    if mask is None and k.is_cuda:
        return [attend(q, k, v, None) for q in queries]
    return _for_each_member(attend, queries, k, v, mask)


def _lower_right(queries: Sequence[Tensor], k: Tensor, v: Tensor, scale: float) -> list[Tensor]:
    """Causal with Tq < Tk on a GPU, whose fused kernels know this alignment (elsewhere torch builds the mask)."""
    with _disable_current_modes():  # torch makes this tensor subclass outside dispatch modes alone
        bias = causal_lower_right(queries[0].shape[2], k.shape[2])
    return _for_each_member(
        lambda q, key, value, _: F.scaled_dot_product_attention(q, key, value, bias, scale=scale), queries, k, v, None
    )


def _for_each_member(
    attend: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor],
    queries: Sequence[Tensor],
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
) -> list[Tensor]:
    """`attend` on every member of every query group; a member is a view `[B, Hkv, Tq, W]`."""
    sizes = [q.shape[1] // k.shape[1] for q in queries]
    keys, values = (iter(share(x, sum(sizes))) for x in (k, v))
    outs = []
    for q, size in zip(queries, sizes, strict=True):
        by_head = mask is not None and mask.shape[1] > 1
        masks = [mask[:, j::size] if by_head and mask is not None else mask for j in range(size)]
        outs.append(_stack_members([attend(q[:, j::size], next(keys), next(values), masks[j]) for j in range(size)]))
    return outs


def _stack_members(outs: Sequence[Tensor]) -> Tensor:
    """`[B, H, Tq, W]` from the members' outputs.

    The kernels write [B, Tq, H, W]; stacked in that order, a layer's reshape to [B, Tq, H * W] is free.
    """
    if len(outs) == 1:
        return outs[0]
    return torch.stack([out.transpose(1, 2) for out in outs], dim=3).flatten(2, 3).transpose(1, 2)


def _group(queries: Sequence[Tensor], kv_heads: int) -> Tensor:
    """All queries by their KV head, `[B, Hkv, G, Tq, W]`; G is the sum of the groups' sizes."""
    return torch.cat([q.unflatten(1, (kv_heads, -1)) for q in queries], dim=2)


def _ungroup(out: Tensor, queries: Sequence[Tensor]) -> list[Tensor]:
    if len(queries) == 1:
        return [out.flatten(1, 2)]
    sizes = [q.shape[1] // out.shape[1] for q in queries]
    return [part.flatten(1, 2) for part in out.split(sizes, dim=2)]
