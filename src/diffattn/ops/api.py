"""The public functions of the operator."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from diffattn.ops import dispatch
from diffattn.ops.autocast import as_autocast
from diffattn.ops.backends import reference
from diffattn.ops.fused import fused_attention
from diffattn.ops.masks import visible
from diffattn.ops.sinks import attention_with_sinks, check_sinks
from diffattn.ops.types import Backend, BackendReport, DiffWeights, Window
from diffattn.ops.validation import check_dropout, check_scale, validate, validate_sight, validate_softmax

__all__ = ["diff_attention", "diff_attention_weights", "explain_backends", "softmax_attention"]


def diff_attention(
    q1: Tensor,
    q2: Tensor,
    k: Tensor,
    v: Tensor,
    lam: Tensor | float,
    *,
    causal: bool = True,
    window: Window = None,
    mask: Tensor | None = None,
    k_lengths: Tensor | None = None,
    segment_ids: tuple[Tensor, Tensor] | None = None,
    scale: float | None = None,
    dropout_p: float = 0.0,
    backend: Backend | str = "auto",
) -> Tensor:
    """Differential attention: `(softmax(q1 k1^T scale) - lam softmax(q2 k2^T scale)) v`.

    Serves DIFF V1 (Ye et al., arXiv:2410.05258), DIFF V2 (Microsoft, January 2026), grouped differential attention
    and cross attention. Softmax and subtraction are in float32 (float64 for float64 inputs). All restrictions of what
    a query sees hold together; a row that may see nothing gives 0 with zero gradient. NaN or infinity in keys and
    values that no query of the batch row may see reaches neither result nor gradient.

    Causal is aligned to the lower right corner of the valid keys. Tq = 3, Tk = 5 (`#` seen):

        # # # . .
        # # # # .
        # # # # #

    Args:
        q1: queries of the signal map, `[B, H, Tq, D]`.
        q2: queries of the noise map, `[B, Hn, Tq, D]`; Hn divides H, each serves H / Hn adjacent output heads.
        k: `[B, Hkv, Tk, D]`, one key for both maps, or `[B, Hkv, Tk, 2D]`, the signal map's key, then the noise
            map's; Hkv divides Hn.
        v: values, `[B, Hkv, Tk, Dv]`.
        lam: a number, a tensor of 0 dimensions, or one of 3 with each of `[B, H, Tq]` full or 1.
        causal: query i sees keys up to i + Tk - Tq (with `k_lengths`: up to i + k_lengths[b] - Tq).
        window: with causal an int w: of those keys the last w, the query's own position included; without causal
            `(left, right)` around the query's own position.
        mask: bool, True may attend; `[B, Tk]` (key padding), or 4 dimensions broadcasting to `[B, H, Tq, Tk]`.
        k_lengths: int `[B]`, the valid keys of each batch row; later ones are neither seen nor used;
            bounded by 0 and Tk.
        segment_ids: `(q_ids [B, Tq], k_ids [B, Tk])` of integers; attention only where they are equal.
        scale: of the scores, above 0; default D ** -0.5.
        dropout_p: share of the weights of each map and output head that is dropped before the subtraction (the
            rest is divided by 1 - dropout_p). Pass 0 in evaluation.
        backend: a `Backend` or its name; "auto" takes the first that can serve, a named one never falls back.

    Returns:
        `[B, H, Tq, Dv]` in the dtype of the queries. Under `torch.autocast` queries, keys and values are first taken to
        its dtype, as for torch's own attention; softmax and subtraction stay in float32.

    Raises:
        ValueError: an argument does not fit; the message names it.
        UnsupportedBackendError: the backend named cannot serve these inputs.
    """
    q1, q2, k, v = as_autocast(q1, q2, k, v)
    x = validate(
        q1,
        q2,
        k,
        v,
        lam,
        causal=causal,
        window=window,
        mask=mask,
        k_lengths=k_lengths,
        segment_ids=segment_ids,
        scale=scale,
        dropout_p=dropout_p,
    )
    return dispatch.run(x, backend)


def diff_attention_weights(
    q1: Tensor,
    q2: Tensor,
    k: Tensor,
    lam: Tensor | float,
    *,
    causal: bool = True,
    window: Window = None,
    mask: Tensor | None = None,
    k_lengths: Tensor | None = None,
    segment_ids: tuple[Tensor, Tensor] | None = None,
    scale: float | None = None,
) -> DiffWeights:
    """The maps of `diff_attention`, for looking at: they are built whole, so keep the lengths modest.

    Arguments and errors as in `diff_attention`.

    Returns:
        `DiffWeights(signed, signal, noise)`, each `[B, H, Tq, Tk]` in float32 (float64 for float64 inputs):
        `signed = signal - lam noise`.
    """
    q1, q2, k = as_autocast(q1, q2, k)
    x = validate(
        q1,
        q2,
        k,
        k,
        lam,
        causal=causal,
        window=window,
        mask=mask,
        k_lengths=k_lengths,
        segment_ids=segment_ids,
        scale=scale,
    )
    return reference.weights(x, visible(x.sight, k.device))


def explain_backends(
    q1: Tensor, q2: Tensor, k: Tensor, v: Tensor, lam: Tensor | float, **arguments: Any
) -> BackendReport:
    """Which backends can serve a call of `diff_attention`, why others cannot, and which one "auto" takes.

    Args:
        arguments: the keyword arguments of `diff_attention`, `backend` left out.

    Returns:
        A `BackendReport`; printed, it is a line a backend.
    """
    defaults: dict[str, Any] = {
        "causal": True,
        "window": None,
        "mask": None,
        "k_lengths": None,
        "segment_ids": None,
    }
    q1, q2, k, v = as_autocast(q1, q2, k, v)
    return dispatch.explain(validate(q1, q2, k, v, lam, **{**defaults, **arguments}))


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = True,
    window: Window = None,
    mask: Tensor | None = None,
    k_lengths: Tensor | None = None,
    segment_ids: tuple[Tensor, Tensor] | None = None,
    scale: float | None = None,
    dropout_p: float = 0.0,
    sinks: Tensor | None = None,
) -> Tensor:
    """Ordinary attention with the conventions and care of `diff_attention`: the baseline of every comparison.

    Args:
        q: `[B, H, Tq, D]`; k: `[B, Hkv, Tk, D]`; v: `[B, Hkv, Tk, Dv]`. The rest as in `diff_attention`.
        sinks: `[H]`, finite: in each softmax of the head one more score, which no value belongs to (gpt-oss). What it
            takes is missing from the row's weights, whose sum is then below 1.

    Returns:
        `[B, H, Tq, Dv]` in the dtype of `q`.
    """
    q, k, v = as_autocast(q, k, v)
    validate_softmax(q, k, v)
    sight = validate_sight(q, k, causal=causal, window=window, mask=mask, k_lengths=k_lengths, segment_ids=segment_ids)
    scale, dropout_p = check_scale(scale, q.shape[3]), check_dropout(dropout_p)
    if sinks is None:
        return fused_attention([q], k, v, sight, scale, dropout_p)[0].flatten(1, 2)
    check_sinks(sinks, q)
    return attention_with_sinks(q, k, v, sinks, sight, scale, dropout_p)
