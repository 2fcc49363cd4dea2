"""A mask as a function of positions, of which only the rows that are needed are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import sdpa_mask

__all__ = ["LazyMask", "Mask", "is_seen", "mask_of_queries", "mask_of_rows", "probe_mask", "stretch_of"]


@dataclass(frozen=True, eq=False)
class LazyMask:
    """Arguments of transformers' `sdpa_mask`, kept until some rows are asked for."""

    arguments: dict[str, Any]

    def stretch(self, first: int, end: int) -> slice:
        """Keys out of which queries first to end - 1 see none: those of the window where it decides, else all."""
        length, window = self.arguments["kv_length"], self.arguments.get("local_size")
        if window is None or length != self.arguments["q_length"] or not self.arguments["allow_is_causal_skip"]:
            return slice(0, length)
        return slice(max(0, first - window + 1), end)

    def rows(self, first: int, end: int, keys: slice) -> Tensor:
        """True where queries first to end - 1 see one of the keys, bool `[B, 1, end - first, keys]`."""
        moved = {
            "q_length": end - first,
            "q_offset": self.arguments["q_offset"] + first,
            "kv_length": keys.stop - keys.start,
            "kv_offset": self.arguments["kv_offset"] + keys.start,
            "allow_is_causal_skip": False,
        }
        return sdpa_mask(**{**self.arguments, **moved})


#: None for plain causal; a tensor `[B or 1, heads or 1, Tq, Tk]` is bool or added to the scores.
Mask = LazyMask | Tensor | None


def probe_mask(**arguments: Any) -> LazyMask | None:
    """A mask function of transformers; None for a plain causal mask, as from `sdpa_mask`."""
    arguments = {"q_offset": 0, "kv_offset": 0, "allow_is_causal_skip": True, **arguments}
    window = arguments.get("local_size") or arguments["kv_length"] + 1
    whole = arguments["q_length"] == arguments["kv_length"] < window and arguments.get("attention_mask") is None
    return None if whole and arguments["allow_is_causal_skip"] else LazyMask(arguments)


def stretch_of(mask: Mask, first: int, end: int, length: int) -> slice:
    """Keys, of `length`, outside of which queries first to end - 1 see none."""
    if isinstance(mask, LazyMask):
        return mask.stretch(first, end)
    return slice(0, end if mask is None else length)


def mask_of_rows(mask: Mask, first: int, end: int, keys: slice, device: torch.device, every: int = 1) -> Tensor:
    """The mask of queries first, first + every, ... below end and some keys, `[B or 1, heads or 1, rows, keys]`."""
    if mask is None:
        positions = torch.arange(max(end, keys.stop), device=device)
        return (positions[keys] <= positions[first:end:every, None])[None, None]
    if isinstance(mask, Tensor):
        return mask[..., first:end:every, keys]
    if every == 1:
        return mask.rows(first, end, keys)
    return torch.cat([mask.rows(row, row + 1, keys) for row in range(first, end, every)], dim=2)


def mask_of_queries(mask: Mask, queries: Tensor, length: int) -> Tensor:
    """The mask of chosen queries and all of `length` keys, `[B, heads or 1, Q, length]`; queries int64 `[B, Q]`."""
    if mask is None:
        return (torch.arange(length, device=queries.device) <= queries[..., None])[:, None]
    if isinstance(mask, Tensor):
        of_each = mask.expand(len(queries), *mask.shape[1:])
        return torch.stack([of_one[:, rows, :length] for of_one, rows in zip(of_each, queries, strict=True)])
    positions, where = queries.unique(return_inverse=True)
    rows = torch.cat([mask.rows(row, row + 1, slice(0, length)) for row in positions.tolist()], dim=2)
    return torch.stack([of_one[:, chosen] for of_one, chosen in zip(rows, where, strict=True)])


def is_seen(rows: Tensor) -> Tensor:
    """Bool from a bool mask or an additive one, whose hidden keys have the dtype's lowest number or -inf."""
    return rows if rows.dtype == torch.bool else rows > torch.finfo(rows.dtype).min / 2
