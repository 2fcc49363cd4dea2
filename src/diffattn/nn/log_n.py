"""Queries scaled by the logarithm of how many keys they see, so that a longer context does not flatten the softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["check_log_n_length", "scale_by_log_n"]


def check_log_n_length(length: int | None) -> None:
    """Refuses a length whose logarithm cannot divide.

    Raises:
        ValueError: it is below 2, or no whole number.
    """
    if length is not None and (type(length) is not int or length < 2):
        raise ValueError(f"log_n_length: expected a whole number of 2 or more, or None, got {length!r}")


def scale_by_log_n(q: Tensor, positions: Tensor | None, length: int, window: int | None = None) -> Tensor:
    """`q` times `log(n) / log(length)`, n the keys that the query sees (Chiang and Cholak, arXiv:2202.12172).

    n is position + 1, at most `window`, and taken as 2 where it is 1: a single key has all the weight whatever the
    scale, but a query of zeros would no longer tell that key from a sink.

    Args:
        q: `[B, T, heads, D]`.
        positions: int `[B or 1, T]`, each token's number in its document, from 0.
        length: where the scale is 1.

    Returns:
        As `q`; the product is taken in float32 or wider and rounded once.

    Raises:
        ValueError: there are no positions.
    """
    if positions is None:
        raise ValueError("positions: expected int [B or 1, T] with log_n_length, got None")
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    seen = positions + 1 if window is None else (positions + 1).clamp(max=window)
    scale = seen.clamp(min=2).to(wide).log() / math.log(length)
    return (q * scale[..., None, None]).to(q.dtype)
