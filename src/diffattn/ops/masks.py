"""Which keys a query may see, as boolean tensors (True: may attend)."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from diffattn.ops.types import Sight

__all__ = ["seen_keys", "visible", "zero_unseen"]


def visible(sight: Sight, device: torch.device) -> Tensor | None:
    """Every restriction of the call in one mask that broadcasts to `[B, H, Tq, Tk]`; None if there is none.

    With causal, the last query is aligned to the last valid key: query i sees keys up to i + k_lengths[b] - Tq.
    Tq = 3, Tk = 5 (`#` seen; `window=3` leaves out `o`):

        # # # . .
        o # # # .
        o o # # #
    """
    parts = [sight.mask, _within_length(sight), _positions(sight, device), _same_segment(sight)]
    present = [part for part in parts if part is not None]
    return reduce(torch.logical_and, present) if present else None


def _keys(sight: Sight, device: torch.device) -> Tensor:
    return torch.arange(sight.k_length, device=device)


def _within_length(sight: Sight) -> Tensor | None:
    if sight.k_lengths is None:
        return None
    return (_keys(sight, sight.k_lengths.device) < sight.k_lengths[:, None])[:, None, None, :]


def _positions(sight: Sight, device: torch.device) -> Tensor | None:
    """Causal and window: both compare a key's index with the query's own position, `[B or 1, 1, Tq, 1]`."""
    if not sight.causal and sight.window is None:
        return None
    key = _keys(sight, device)
    ends = sight.k_length if sight.k_lengths is None else sight.k_lengths[:, None, None, None]
    own = torch.arange(sight.q_length, device=device)[None, None, :, None] + ends - sight.q_length
    if isinstance(sight.window, tuple):
        left, right = sight.window
        return (key >= own - left) & (key <= own + right)
    seen = key <= own
    return seen if sight.window is None else seen & (key > own - sight.window)


def _same_segment(sight: Sight) -> Tensor | None:
    if sight.segment_ids is None:
        return None
    q_ids, k_ids = sight.segment_ids
    return (q_ids[:, :, None] == k_ids[:, None, :])[:, None]


def seen_keys(seen: Tensor) -> Tensor:
    """Keys that at least one query of the batch row may see: `[B or 1, 1, Tk, 1]`, to lay over keys and values."""
    return seen.any(dim=2).any(dim=1)[:, None, :, None]


def zero_unseen(tensor: Tensor, seen: Tensor) -> Tensor:
    """Keys or values `[B, Hkv, Tk, *]` with a 0 where nothing may look, so that no NaN there spreads as 0 * NaN."""
    return torch.where(seen_keys(seen), tensor, torch.zeros((), dtype=tensor.dtype, device=tensor.device))
