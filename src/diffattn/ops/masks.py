"""Which keys a query may see, as boolean tensors (True: may attend)."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from diffattn.ops.types import Sight

__all__ = ["by_group", "seen_keys", "visible", "zero_unseen"]


def visible(
    sight: Sight, device: torch.device, queries: slice | None = None, keys: slice | None = None
) -> Tensor | None:
    """Every restriction of the call in one mask that broadcasts to `[B, H, Tq, Tk]`; None if there is none.

    With causal, the last query is aligned to the last valid key: query i sees keys up to i + k_lengths[b] - Tq.
    Tq = 3, Tk = 5 (`#` seen; `window=3` leaves out `o`):

        # # # . .
        o # # # .
        o o # # #

    `queries` and `keys` pick a block of it.
    """
    q = torch.arange(sight.q_length, device=device) if queries is None else _range(queries, device)
    k = torch.arange(sight.k_length, device=device) if keys is None else _range(keys, device)
    whole = slice(None)
    parts = [
        _pick(sight.mask, queries or whole, keys or whole),
        _within_length(sight, k),
        _positions(sight, q, k),
        _same_segment(sight, queries or whole, keys or whole),
    ]
    present = [part for part in parts if part is not None]
    return reduce(torch.logical_and, present) if present else None


def _range(part: slice, device: torch.device) -> Tensor:
    return torch.arange(part.start, part.stop, device=device)


def _pick(mask: Tensor | None, queries: slice, keys: slice) -> Tensor | None:
    if mask is None:
        return None
    whole = slice(None)
    return mask[:, :, queries if mask.shape[2] > 1 else whole, keys if mask.shape[3] > 1 else whole]


def _within_length(sight: Sight, key: Tensor) -> Tensor | None:
    if sight.k_lengths is None:
        return None
    return (key < sight.k_lengths[:, None])[:, None, None, :]


def _positions(sight: Sight, query: Tensor, key: Tensor) -> Tensor | None:
    """Causal and window: both compare a key's index with the query's own position, `[B or 1, 1, Tq, 1]`."""
    if not sight.causal and sight.window is None:
        return None
    ends = sight.k_length if sight.k_lengths is None else sight.k_lengths[:, None, None, None]
    own = query[None, None, :, None] + ends - sight.q_length
    if isinstance(sight.window, tuple):
        left, right = sight.window
        return (key >= own - left) & (key <= own + right)
    seen = key <= own
    return seen if sight.window is None else seen & (key > own - sight.window)


def _same_segment(sight: Sight, queries: slice, keys: slice) -> Tensor | None:
    if sight.segment_ids is None:
        return None
    q_ids, k_ids = sight.segment_ids
    return (q_ids[:, queries, None] == k_ids[:, None, keys])[:, None]


def seen_keys(seen: Tensor) -> Tensor:
    """Keys that at least one query of the batch row may see: `[B or 1, 1, Tk, 1]`, to lay over keys and values."""
    return seen.any(dim=2).any(dim=1)[:, None, :, None]


def zero_unseen(tensor: Tensor, seen: Tensor) -> Tensor:
    """Keys or values `[B, Hkv, Tk, *]` with a 0 where nothing may look, so that no NaN there spreads as 0 * NaN."""
    return torch.where(seen_keys(seen), tensor, torch.zeros((), dtype=tensor.dtype, device=tensor.device))


def by_group(mask: Tensor, kv_heads: int, group: int) -> Tensor:
    """`[B, 1 or H, *, *]` laid over `[B, Hkv, G, *, *]`; a group that holds several maps of a head repeats it."""
    if mask.shape[1] == 1:
        return mask.unsqueeze(2)
    mask = mask.unflatten(1, (kv_heads, -1))
    repeats = group // mask.shape[2]
    return mask if repeats == 1 else mask.repeat(1, 1, repeats, 1, 1)
