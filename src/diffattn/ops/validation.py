"""Checks of the operator's arguments: each error names the argument, what was expected and what came."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Iterable
from numbers import Real
from typing import Any, TypeGuard

import torch
from torch import Tensor

from diffattn.ops.types import DiffInputs, Sight, Window, compute_dtype

__all__ = ["check_dropout", "check_scale", "validate", "validate_sight", "validate_softmax", "wrong"]

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.int32, torch.int64)
SIGHT = ("causal", "window", "mask", "k_lengths", "segment_ids")
# A window this wide hides nothing, and a position plus it is still an int64.
WIDEST = 2**62


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
    _check_keywords(sight)
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
    _check_tensors(q=q, k=k, v=v)
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
    if not isinstance(causal, bool):
        raise wrong("causal", "True or False", causal)
    return Sight(
        q_length=q.shape[2],
        k_length=k.shape[2],
        causal=causal,
        window=_normal_window(window, causal),
        mask=_normal_mask(mask, q, k),
        k_lengths=_normal_lengths(k_lengths, k),
        segment_ids=_check_segments(segment_ids, q, k),
    )


def check_scale(scale: float | None, map_dim: int) -> float:
    if scale is None:
        return map_dim**-0.5
    if not _is_number(scale) or not 0.0 < scale <= sys.float_info.max:
        raise wrong("scale", "a finite number above 0", scale)
    return float(scale)


def check_dropout(dropout_p: float) -> float:
    if not _is_number(dropout_p) or not 0.0 <= dropout_p < 1.0:
        raise wrong("dropout_p", "a number, 0 <= dropout_p < 1", dropout_p)
    return float(dropout_p)


def wrong(name: str, expected: str, given: object) -> ValueError:
    """The error of one argument."""
    return ValueError(f"{name}: expected {expected}, got {_words(given)}")


def _words(given: object) -> str:
    if not isinstance(given, Tensor):
        return " ".join(reprlib.repr(given).split())
    if given.is_nested:
        return "a nested tensor"
    layout = "" if given.layout == torch.strided else f" as {given.layout}"
    return f"a {given.dtype} tensor of shape {list(given.shape)} on {given.device}{layout}"


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_keywords(names: Iterable[str]) -> None:
    for name in names:
        if name not in SIGHT:
            known = ", ".join((*SIGHT, "scale", "dropout_p"))
            raise ValueError(f"{name}: expected no such argument, got one; those that may follow lam are {known}")


def _check_tensor(name: str, given: object, dtypes: tuple[torch.dtype, ...], what: str, device_of: Tensor) -> None:
    if not isinstance(given, Tensor) or given.dtype not in dtypes:
        raise wrong(name, what, given)
    if given.is_nested or given.layout != torch.strided:
        raise wrong(name, "a dense tensor", given)
    if given.device != device_of.device:
        raise wrong(name, f"device {device_of.device} as of the queries", given)


def _check_tensors(**tensors: Tensor) -> None:
    first = next(iter(tensors.values()))
    for name, tensor in tensors.items():
        _check_tensor(name, tensor, FLOATS, "a float16, bfloat16, float32 or float64 tensor", first)
        if tensor.dtype != first.dtype:
            raise wrong(name, f"{first.dtype} as of the queries", tensor)
        if tensor.ndim != 4:
            raise wrong(name, "4 dimensions [batch, heads, length, width]", list(tensor.shape))
        if tensor.shape[1] == 0 or tensor.shape[3] == 0:
            raise wrong(name, "at least one head and a width", list(tensor.shape))


def _check_queries(q1: Tensor, q2: Tensor) -> None:
    batch, heads, q_length, map_dim = q1.shape
    if (q2.shape[0], q2.shape[2], q2.shape[3]) != (batch, q_length, map_dim):
        raise wrong("q2", f"[{batch}, Hn, {q_length}, {map_dim}] to match q1", list(q2.shape))
    if heads % q2.shape[1]:
        raise wrong("q2", f"a number of noise heads that divides the {heads} heads of q1", q2.shape[1])


def _check_keys(q: Tensor, query_heads: int, k: Tensor, v: Tensor, widths: tuple[int, ...]) -> None:
    batch, map_dim = q.shape[0], q.shape[3]
    if query_heads % k.shape[1]:
        raise wrong("k", f"a number of key/value heads that divides the {query_heads} query heads", k.shape[1])
    if k.shape[0] != batch:
        raise wrong("k", f"batch {batch} as in the queries", k.shape[0])
    if k.shape[3] not in [times * map_dim for times in widths]:
        pair = f" or {2 * map_dim} (signal key, then noise key)" if 2 in widths else ""
        raise wrong("k", f"width {map_dim} as in the queries{pair}", k.shape[3])
    if v.shape[:3] != k.shape[:3]:
        raise wrong("v", f"{list(k.shape[:3])} before its width, as in k", list(v.shape[:3]))


def _normal_lam(lam: Tensor | float, q1: Tensor) -> Tensor:
    dtype, full = compute_dtype(q1.dtype), list(q1.shape[:3])
    if not isinstance(lam, Tensor):
        if not _is_number(lam) or not abs(lam) <= torch.finfo(dtype).max:
            raise wrong("lam", "a finite number or a tensor", lam)
        return torch.full((), float(lam), dtype=dtype, device=q1.device)
    _check_tensor("lam", lam, FLOATS, "a number or a floating-point tensor", q1)
    if lam.ndim == 0:
        return lam.to(dtype)
    if not _broadcasts(lam, full):
        raise wrong("lam", f"a number, 0 dimensions, or [B, H, Tq] = {full} with each size full or 1", list(lam.shape))
    return lam.to(dtype).unsqueeze(-1)


def _broadcasts(tensor: Tensor, full: list[int]) -> bool:
    """Whether the tensor has the dimensions of `full`, each whole or 1."""
    return tensor.ndim == len(full) and all(size in (1, want) for size, want in zip(tensor.shape, full, strict=True))


def _normal_window(window: Window, causal: bool) -> Window:
    if window is None:
        return None
    if not causal:
        if not _is_pair_of_sizes(window):
            raise wrong("window", "with causal=False (left, right), two ints of 0 or more", window)
        return min(window[0], WIDEST), min(window[1], WIDEST)
    if type(window) is not int or window < 1:
        raise wrong("window", "with causal=True an int of 1 or more (keys seen, itself included)", window)
    return min(window, WIDEST)


def _is_pair_of_sizes(window: object) -> TypeGuard[tuple[int, int]]:
    return isinstance(window, tuple) and len(window) == 2 and all(type(size) is int and size >= 0 for size in window)


def _normal_mask(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    if mask is None:
        return None
    _check_tensor("mask", mask, (torch.bool,), "a bool tensor (True: may attend)", q)
    padding, full = [q.shape[0], k.shape[2]], [*q.shape[:3], k.shape[2]]
    if list(mask.shape) == padding:
        return mask[:, None, None, :]
    if not _broadcasts(mask, full):
        expected = f"[B, Tk] = {padding} or 4 dimensions broadcasting to [B, H, Tq, Tk] = {full}"
        raise wrong("mask", expected, list(mask.shape))
    return mask


def _normal_lengths(k_lengths: Tensor | None, k: Tensor) -> Tensor | None:
    if k_lengths is None:
        return None
    _check_tensor("k_lengths", k_lengths, INTEGERS, "an int32 or int64 tensor", k)
    if list(k_lengths.shape) != [k.shape[0]]:
        raise wrong("k_lengths", f"shape [B] = [{k.shape[0]}]", list(k_lengths.shape))
    return k_lengths.clamp(0, k.shape[2])


def _check_segments(segment_ids: tuple[Tensor, Tensor] | None, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor] | None:
    if segment_ids is None:
        return None
    if not isinstance(segment_ids, tuple) or len(segment_ids) != 2:
        raise wrong("segment_ids", "a tuple (q_ids [B, Tq], k_ids [B, Tk])", segment_ids)
    for name, ids, like in zip(("q_ids", "k_ids"), segment_ids, (q, k), strict=True):
        _check_tensor("segment_ids", ids, INTEGERS, f"{name} as an int32 or int64 tensor", q)
        shape = [like.shape[0], like.shape[2]]
        if list(ids.shape) != shape:
            raise wrong("segment_ids", f"{name} of shape {shape}", list(ids.shape))
    return segment_ids
