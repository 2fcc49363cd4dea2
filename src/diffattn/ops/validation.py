"""Checks of the operator's arguments: each error names the argument, what was expected and what came."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from diffattn.ops.types import DiffInputs, Sight, Window, compute_dtype

__all__ = ["check_dropout", "check_scale", "validate", "validate_sight", "validate_softmax"]

INTEGERS = (torch.int32, torch.int64)


def validate(
    q1: Tensor,
    q2: Tensor,
    k: Tensor,
    v: Tensor,
    lam: Tensor | float,
    *,
    scale: float | None = None,
    dropout_p: float = 0.0,
    **sight: Any,
) -> DiffInputs:
    """The differential call in its one normal form; `sight` holds the arguments of `validate_sight`.

    Raises:
        ValueError: an argument does not fit; the message names it.
    """
    _check_tensors(q1=q1, q2=q2, k=k, v=v)
    _check_queries(q1, q2)
    _check_keys(q1, q2.shape[1], k, v, widths=(1, 2))
    return DiffInputs(
        q1=q1,
        q2=q2,
        k=k,
        v=v,
        lam=_normal_lam(lam, q1),
        sight=validate_sight(q1, k, **sight),
        scale=check_scale(scale, q1.shape[3]),
        dropout_p=check_dropout(dropout_p),
    )


def validate_softmax(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Checks the tensors of ordinary attention."""
    _check_tensors(q1=q, k=k, v=v)
    _check_keys(q, q.shape[1], k, v, widths=(1,))


def validate_sight(
    q: Tensor,
    k: Tensor,
    *,
    causal: bool,
    window: Window,
    mask: Tensor | None,
    k_lengths: Tensor | None,
    segment_ids: tuple[Tensor, Tensor] | None,
) -> Sight:
    """What each query may see, in its normal form."""
    _check_window(window, causal)
    batch, heads, q_length, _ = q.shape
    k_length = k.shape[2]
    if isinstance(window, int) and window >= k_length:
        window = None  # no key is farther back than that
    return Sight(
        q_length=q_length,
        k_length=k_length,
        causal=causal,
        window=window,
        mask=_normal_mask(mask, (batch, heads, q_length, k_length), q.device),
        k_lengths=_normal_lengths(k_lengths, batch, k_length, q.device),
        segment_ids=_check_segments(segment_ids, (batch, q_length), (batch, k_length), q.device),
    )


def check_scale(scale: float | None, map_dim: int) -> float:
    if scale is None:
        return map_dim**-0.5
    if not isinstance(scale, Real) or not 0.0 < float(scale) < math.inf:
        raise ValueError(f"scale: expected a finite number above 0, got {scale!r}")
    return float(scale)


def check_dropout(dropout_p: float) -> float:
    if not 0.0 <= dropout_p < 1.0:
        raise ValueError(f"dropout_p: expected 0 <= dropout_p < 1, got {dropout_p}")
    return float(dropout_p)


def _check_tensors(**tensors: Tensor) -> None:
    first = tensors["q1"]
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.ndim != 4:
            raise ValueError(
                f"{name}: expected 4 dimensions [batch, heads, length, width], got shape {tuple(tensor.shape)}"
            )
        if tensor.shape[1] == 0 or tensor.shape[3] == 0:
            raise ValueError(f"{name}: expected at least one head and a width, got shape {tuple(tensor.shape)}")
        if not tensor.is_floating_point():
            raise ValueError(f"{name}: expected a floating-point dtype, got {tensor.dtype}")
        if tensor.dtype != first.dtype:
            raise ValueError(f"{name}: expected the dtype of q1, {first.dtype}, got {tensor.dtype}")
        if tensor.device != first.device:
            raise ValueError(f"{name}: expected the device of q1, {first.device}, got {tensor.device}")


def _check_queries(q1: Tensor, q2: Tensor) -> None:
    batch, heads, q_length, map_dim = q1.shape
    noise_heads = q2.shape[1]
    if (q2.shape[0], q2.shape[2], q2.shape[3]) != (batch, q_length, map_dim):
        raise ValueError(f"q2: expected [{batch}, Hn, {q_length}, {map_dim}] to match q1, got {list(q2.shape)}")
    if noise_heads == 0 or heads % noise_heads:
        raise ValueError(f"q2: its {noise_heads} noise heads must divide the {heads} heads of q1")


def _check_keys(q: Tensor, query_heads: int, k: Tensor, v: Tensor, widths: tuple[int, ...]) -> None:
    batch, kv_heads, map_dim = q.shape[0], k.shape[1], q.shape[3]
    if kv_heads == 0 or query_heads % kv_heads:
        raise ValueError(f"k: its {kv_heads} key/value heads must divide the {query_heads} query heads")
    if k.shape[0] != batch:
        raise ValueError(f"k: expected batch {batch} as in the queries, got {k.shape[0]}")
    if k.shape[3] not in [times * map_dim for times in widths]:
        pair = f" or {2 * map_dim} (signal key, then noise key)" if 2 in widths else ""
        raise ValueError(f"k: expected width {map_dim} as in the queries{pair}, got {k.shape[3]}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v: expected {list(k.shape[:3])} before its width, as in k, got {list(v.shape[:3])}")


def _check_window(window: Window, causal: bool) -> None:
    if window is None:
        return
    if causal and not (type(window) is int and window >= 1):
        raise ValueError(
            f"window: with causal=True expected an int of 1 or more (keys seen, itself included), got {window!r}"
        )
    if not causal and not _is_pair_of_sizes(window):
        raise ValueError(f"window: with causal=False expected (left, right), two ints of 0 or more, got {window!r}")


def _is_pair_of_sizes(window: object) -> bool:
    is_pair = isinstance(window, tuple) and len(window) == 2
    return is_pair and all(type(size) is int and size >= 0 for size in window)  # type: ignore[attr-defined]


def _normal_lam(lam: Tensor | float, q1: Tensor) -> Tensor:
    dtype = compute_dtype(q1.dtype)
    if not isinstance(lam, Tensor):
        if not isinstance(lam, Real):
            raise ValueError(f"lam: expected a number or a tensor, got {type(lam).__name__}")
        return torch.full((), float(lam), dtype=dtype, device=q1.device)
    if not lam.is_floating_point():
        raise ValueError(f"lam: expected a floating-point dtype, got {lam.dtype}")
    if lam.device != q1.device:
        raise ValueError(f"lam: expected the device of q1, {q1.device}, got {lam.device}")
    if lam.ndim == 0:
        return lam.to(dtype)
    full = q1.shape[:3]
    if lam.ndim != 3 or any(size not in (1, want) for size, want in zip(lam.shape, full, strict=True)):
        raise ValueError(
            f"lam: expected a number, 0 dimensions, or [B, H, Tq] = {list(full)} with each size full or 1, "
            f"got shape {list(lam.shape)}"
        )
    return lam.to(dtype).unsqueeze(-1)


def _normal_mask(mask: Tensor | None, full: tuple[int, int, int, int], device: torch.device) -> Tensor | None:
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise ValueError(
            f"mask: expected a bool tensor (True: may attend), got {getattr(mask, 'dtype', type(mask).__name__)}"
        )
    if mask.device != device:
        raise ValueError(f"mask: expected the device of q1, {device}, got {mask.device}")
    batch, _, _, k_length = full
    if mask.ndim == 2 and tuple(mask.shape) == (batch, k_length):
        return mask[:, None, None, :]
    if mask.ndim == 4 and all(size in (1, want) for size, want in zip(mask.shape, full, strict=True)):
        return mask
    raise ValueError(
        f"mask: expected [B, Tk] = {[batch, k_length]} or 4 dimensions broadcasting to [B, H, Tq, Tk] = {list(full)}, "
        f"got shape {list(mask.shape)}"
    )


def _normal_lengths(k_lengths: Tensor | None, batch: int, k_length: int, device: torch.device) -> Tensor | None:
    if k_lengths is None:
        return None
    if not isinstance(k_lengths, Tensor) or k_lengths.dtype not in INTEGERS:
        raise ValueError(
            f"k_lengths: expected an int32 or int64 tensor, got {getattr(k_lengths, 'dtype', type(k_lengths).__name__)}"
        )
    if tuple(k_lengths.shape) != (batch,):
        raise ValueError(f"k_lengths: expected shape [B] = [{batch}], got {list(k_lengths.shape)}")
    if k_lengths.device != device:
        raise ValueError(f"k_lengths: expected the device of q1, {device}, got {k_lengths.device}")
    return k_lengths.clamp(0, k_length)


def _check_segments(
    segment_ids: tuple[Tensor, Tensor] | None,
    q_shape: tuple[int, int],
    k_shape: tuple[int, int],
    device: torch.device,
) -> tuple[Tensor, Tensor] | None:
    if segment_ids is None:
        return None
    if not isinstance(segment_ids, tuple) or len(segment_ids) != 2:
        raise ValueError(
            f"segment_ids: expected a tuple (q_ids [B, Tq], k_ids [B, Tk]), got {type(segment_ids).__name__}"
        )
    for name, ids, shape in zip(("q_ids", "k_ids"), segment_ids, (q_shape, k_shape), strict=True):
        if (
            not isinstance(ids, Tensor)
            or ids.dtype not in INTEGERS
            or tuple(ids.shape) != shape
            or ids.device != device
        ):
            found = f"{list(ids.shape)} {ids.dtype} on {ids.device}" if isinstance(ids, Tensor) else type(ids).__name__
            raise ValueError(
                f"segment_ids: expected {name} of shape {list(shape)}, int32 or int64 on {device}, got {found}"
            )
    return segment_ids
