"""Differential attention as nested loops over numbers, written from the formula; shares no code with the package."""

from __future__ import annotations

import math
from operator import mul

import torch
from torch import Tensor


def dot(a, b):
    return sum(map(mul, a, b))


def softmax_row(scores, may_see):
    """Weights of one query: 0 for keys it may not see, all 0 where it sees none."""
    seen = [s for s, ok in zip(scores, may_see, strict=True) if ok]
    if not seen:
        return [0.0] * len(scores)
    top = max(seen)
    powers = [math.exp(s - top) if ok else 0.0 for s, ok in zip(scores, may_see, strict=True)]
    total = sum(powers)
    return [p / total for p in powers]


def lam_at(lam, b, h, t):
    if isinstance(lam, (int, float)):
        return float(lam)
    if lam.ndim == 0:
        return lam.item()
    i, j, k = ((0 if size == 1 else index) for size, index in zip(lam.shape, (b, h, t), strict=True))
    return lam[i, j, k].item()


def loop_attention(q1, q2, k, v, lam, may_see, scale=None) -> Tensor:
    """`may_see(b, h, i, j) -> bool`; returns float64 `[B, H, Tq, Dv]`."""
    return loop_attention_and_size(q1, q2, k, v, lam, may_see, scale)[0]


def loop_attention_and_size(q1, q2, k, v, lam, may_see, scale=None) -> tuple[Tensor, Tensor]:
    """The result, and `A1 |V| + |lam| A2 |V|`, what its error is measured against."""
    B, H, Tq, D = q1.shape
    noise_repeat, kv_repeat = H // q2.shape[1], H // k.shape[1]
    Tk, Dv = k.shape[2], v.shape[3]
    scale = 1.0 / math.sqrt(D) if scale is None else scale
    a, c, keys, values = (t.double().tolist() for t in (q1, q2, k, v))
    pair = k.shape[3] == 2 * D
    nothing = [0.0] * Dv
    out, size = ([[[nothing] * Tq for _ in range(H)] for _ in range(B)] for _ in range(2))
    for b in range(B):
        for h in range(H):
            g = h // kv_repeat
            first = [row[:D] for row in keys[b][g]]
            second = [row[D:] if pair else row for row in keys[b][g]]
            for i in range(Tq):
                ok = [may_see(b, h, i, j) for j in range(Tk)]
                if not any(ok):
                    continue
                rows = (a[b][h][i], first), (c[b][h // noise_repeat][i], second)
                signal, noise = (
                    softmax_row([dot(q, key) * scale if s else 0.0 for key, s in zip(half, ok, strict=True)], ok)
                    for q, half in rows
                )
                weight = lam_at(lam, b, h, i)
                seen = [j for j in range(Tk) if ok[j]]
                signed, total = ([signal[j] + sign * noise[j] for j in seen] for sign in (-weight, abs(weight)))
                columns = [[values[b][g][j][d] for j in seen] for d in range(Dv)]
                out[b][h][i] = [dot(signed, column) for column in columns]
                size[b][h][i] = [dot(total, map(abs, column)) for column in columns]
    shape = (B, H, Tq, Dv)
    return tuple(torch.tensor(entries, dtype=torch.float64).view(shape) for entries in (out, size))


def rules(Tq, Tk, *, causal=True, window=None, mask=None, k_lengths=None, segment_ids=None):
    """The contract's restrictions, one key at a time."""

    ends = None if k_lengths is None else [min(max(n, 0), Tk) for n in k_lengths.tolist()]
    segments = None if segment_ids is None else [ids.tolist() for ids in segment_ids]
    sizes, allowed = (None, None) if mask is None else (mask.shape, mask.tolist())

    def may_see(b, h, i, j):
        end = Tk if ends is None else ends[b]
        own = i + end - Tq
        if j >= end or (causal and j > own):
            return False
        if isinstance(window, tuple) and not own - window[0] <= j <= own + window[1]:
            return False
        if isinstance(window, int) and j <= own - window:
            return False
        if segments is not None and segments[0][b][i] != segments[1][b][j]:
            return False
        if allowed is None:
            return True
        index = (b, j) if len(sizes) == 2 else (b, h, i, j)
        entry = allowed
        for size, at in zip(sizes, index, strict=True):
            entry = entry[0 if size == 1 else at]
        return entry

    return may_see


def loop_attention_with_sinks(q, k, v, sinks, may_see, scale=None) -> tuple[Tensor, Tensor]:
    """`softmax([sink, q k^T scale]) [0, v]` in float64 `[B, H, Tq, Dv]`, and the same of |v|."""
    B, H, Tq, D = q.shape
    repeat, Tk = H // k.shape[1], k.shape[2]
    scale = 1.0 / math.sqrt(D) if scale is None else scale
    queries, keys, values = (t.double().tolist() for t in (q, k, v))
    out, size = torch.zeros(2, B, H, Tq, v.shape[3], dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            for i in range(Tq):
                seen = [j for j in range(Tk) if may_see(b, h, i, j)]
                scores = [dot(queries[b][h][i], keys[b][h // repeat][j]) * scale for j in seen]
                top = max([sinks[h].item(), *scores])
                total = math.exp(sinks[h].item() - top) + sum(math.exp(s - top) for s in scores)
                for j, score in zip(seen, scores, strict=True):
                    row = torch.tensor(values[b][h // repeat][j], dtype=torch.float64)
                    out[b, h, i] += math.exp(score - top) / total * row
                    size[b, h, i] += math.exp(score - top) / total * row.abs()
    return out, size
