"""Ordinary attention on torch's fused kernels, called so that it stays fused and never repeats K or V.

Several groups of query heads share one set of keys and values. What is called depends on what a query may see:

- all keys (decoding): the query group of a KV head is folded into the query length, all groups in one call, so that
  K and V are read once;
- causal, Tq = Tk: K and V laid over the query group without a copy, or one call a member of the group; on a GPU one
  call for each tensor of queries;
- anything else on the CPU: one operator that cuts the call into such pieces (`blockwise.py`), so that no Tq x Tk
  matrix is built;
- on other devices: torch's lower right alignment for causal with Tq < Tk, else a boolean mask, `[B, 1 or H, Tq, Tk]`.
  The same mask serves dropout, for which torch's CPU kernels build the maps anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right
from torch.utils._python_dispatch import _disable_current_modes

from diffattn.ops.blockwise import blockwise_attention
from diffattn.ops.masks import by_group, visible, zero_unseen
from diffattn.ops.sharing import share
from diffattn.ops.types import Sight

__all__ = ["fused_attention", "fused_cost", "in_blocks", "unit_stride"]


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
        One `[B, Hkv, H_i / Hkv, Tq, Dv]` a tensor of queries, in their dtype; rows that see nothing are 0.
    """
    if 0 in (sight.q_length, sight.k_length, k.shape[0]):
        return [_nothing_seen(q, k, v).unflatten(1, (k.shape[1], -1)) for q in queries]
    k, v, *queries = (unit_stride(x) for x in (k, v, *queries))
    blind = sight.q_length - sight.k_length
    if sight.causal and not sight.needs_mask and blind > 0:
        seeing = replace(sight, q_length=sight.k_length)
        rest = fused_attention([q[:, :, blind:] for q in queries], k, v, seeing, scale, dropout_p)
        return [F.pad(out, (0, 0, blind, 0)) for out in rest]
    width, value_width = k.shape[3], v.shape[3]
    if dropout_p and width < value_width:  # parts of the values would each draw weights of their own
        k, *queries = (F.pad(x, (0, value_width - width)) for x in (k, *queries))
        width = value_width
    if width == value_width:
        return _equal_widths(queries, k, v, sight, scale, dropout_p)
    pieces = [F.pad(piece, (0, width - piece.shape[3])) for piece in v.split(width, dim=3)]
    parts = [_equal_widths(queries, k, piece, sight, scale, dropout_p) for piece in pieces]
    return [torch.cat(outs, dim=4)[..., :value_width] for outs in zip(*parts, strict=True)]


def fused_cost(sight: Sight, device: torch.device, dropout_p: float = 0.0) -> str | None:
    """What a call builds beyond linear memory, in words; None where nothing."""
    if dropout_p:
        return "builds both maps, B x H x Tq x Tk each, for dropout"
    by_position_alone = not sight.needs_mask and (device.type == "cuda" or sight.q_length >= sight.k_length)
    if in_blocks(device, dropout_p) or sight.same_for_all_queries or by_position_alone:
        return None
    return f"builds a boolean mask on {device.type}, B x Tq x Tk, or B x H x Tq x Tk where it differs by head"


def in_blocks(device: torch.device, dropout_p: float) -> bool:
    return device.type in ("cpu", "meta") and not dropout_p


def _nothing_seen(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Zeros `[B, H, Tq, Dv]` that still hang on the graph, so that a backward finds zero gradients."""
    return q.new_zeros(*q.shape[:3], v.shape[3]) + sum(x[..., :0].sum() for x in (q, k, v))


def unit_stride(x: Tensor) -> Tensor:
    """The kernels read rows without gaps; for any other layout torch would build the maps."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _equal_widths(
    queries: Sequence[Tensor], k: Tensor, v: Tensor, sight: Sight, scale: float, dropout_p: float
) -> list[Tensor]:
    if not sight.needs_mask and sight.same_for_all_queries:
        return _folded(queries, k, v, None, scale, dropout_p)
    if not sight.needs_mask and sight.q_length == sight.k_length:
        smallest_group = min(q.shape[1] for q in queries) // k.shape[1]
        if in_blocks(k.device, dropout_p) and (k.shape[0] == 1 or smallest_group >= k.shape[1]):
            return _by_key_head(queries, k, v, scale)
        return _by_member(queries, k, v, None, scale, dropout_p, causal=True)
    if in_blocks(k.device, dropout_p):
        return _ungroup(blockwise_attention(_group(queries, k.shape[1]), k, v, sight, scale), queries)
    if k.is_cuda and not sight.needs_mask and not dropout_p and not torch.compiler.is_compiling():
        return _lower_right(queries, k, v, scale)
    return _masked(queries, k, v, sight, scale, dropout_p)


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
    return [out.masked_fill(~by_group(sighted, *out.shape[1:3]), 0.0) for out in outs]


def _folded(
    queries: Sequence[Tensor], k: Tensor, v: Tensor, mask: Tensor | None, scale: float, dropout_p: float
) -> list[Tensor]:
    """All groups as more queries of their KV head: one call that reads K and V once."""
    grouped = _group(queries, k.shape[1])
    shape = grouped.shape
    if k.shape[0] == 1 and mask is None and not dropout_p and (parts := _parts(shape[1], shape[2])) > 1:
        k, v = (x[0].unsqueeze(1).expand(-1, parts, -1, -1) for x in (k, v))
        grouped = grouped[0].unflatten(1, (parts, -1))
    out = F.scaled_dot_product_attention(grouped.flatten(2, 3), k, v, mask, dropout_p, scale=scale)
    return _ungroup(out.reshape(shape), queries)


def _parts(kv_heads: int, group: int) -> int:
    """Parts of each query group, so that the CPU's kernel, which gives a thread whole heads, has work for every one."""
    if torch.compiler.is_compiling():
        return 1
    return next((n for n in range(1, group) if not group % n and n * kv_heads >= torch.get_num_threads()), group)


def _by_key_head(queries: Sequence[Tensor], k: Tensor, v: Tensor, scale: float) -> list[Tensor]:
    """One causal call a KV head, the head laid over its query group without a copy; with one batch row a single call.

    The CPU's kernel divides heads and blocks of queries evenly among threads, and causal blocks are uneven: the more
    heads a call has, the better the threads share it.
    """

    def attend(q: Tensor, key: Tensor, value: Tensor) -> Tensor:
        key, value = (x.unsqueeze(1).expand(-1, q.shape[1], -1, -1) for x in (key, value))
        return F.scaled_dot_product_attention(q, key, value, is_causal=True, scale=scale)

    outs = []
    for q, key, value in zip(queries, share(k, len(queries)), share(v, len(queries)), strict=True):
        grouped = q.unflatten(1, (k.shape[1], -1))
        if k.shape[0] == 1:
            outs.append(attend(grouped[0], key[0], value[0]).unsqueeze(0))
        else:
            heads = zip(*(x.unbind(1) for x in (grouped, key, value)), strict=True)
            by_token = torch.stack([attend(*head).transpose(1, 2) for head in heads], dim=2)
            outs.append(by_token.permute(0, 2, 3, 1, 4))
    return outs


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
        return [attend(q, k, v, None).unflatten(1, (k.shape[1], -1)) for q in queries]
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
    """`[B, Hkv, G, Tq, W]` from the members' outputs.

    The kernels write [B, Tq, H, W]; stacked in that order, a layer's reshape to [B, Tq, H * W] is free.
    """
    if len(outs) == 1:
        return outs[0].unsqueeze(2)
    return torch.stack([out.transpose(1, 2) for out in outs], dim=3).permute(0, 2, 3, 1, 4)


def _group(queries: Sequence[Tensor], kv_heads: int) -> Tensor:
    """All queries by their KV head, `[B, Hkv, G, Tq, W]`; G is the sum of the groups' sizes."""
    return torch.cat([q.unflatten(1, (kv_heads, -1)) for q in queries], dim=2)


def _ungroup(out: Tensor, queries: Sequence[Tensor]) -> list[Tensor]:
    sizes = [q.shape[1] // out.shape[1] for q in queries]
    return list(out.split(sizes, dim=2))
