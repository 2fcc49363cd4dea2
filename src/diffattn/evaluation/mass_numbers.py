"""How the attention of one query is shared out among its keys; pure functions on tensors.

Each key is one of four things, the first that applies: the answer; the first token, on which attention likes to rest
(the sink); the query's own position; noise. Unseen keys have the score -inf and no weight.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from diffattn.evaluation._row_attention import row_weights

__all__ = ["Roles", "map_masses", "roles", "signed_masses"]


class Roles(NamedTuple):
    """What each key is to a question, bool `[P, 1, T]` each; none is two things."""

    answer: Tensor
    sink: Tensor
    own: Tensor
    noise: Tensor


def roles(sources: Tensor, queries: Tensor, length: int) -> Roles:
    """The keys' parts.

    Args:
        sources: int64 `[P, 2]`, first position of the answer and the one after its last; empty where they are equal.
        queries: int64 `[P]`.
        length: T.
    """
    position, start, end = torch.arange(length)[None, None], sources[:, 0, None, None], sources[:, 1, None, None]
    answer = (position >= start) & (position < end)
    sink = (position == 0) & ~answer
    own = (position == queries[:, None, None]) & ~answer & ~sink
    return Roles(answer, sink, own, ~(answer | sink | own))


def map_masses(scores: Tensor, parts: Roles, sinks: Tensor | None = None) -> dict[str, Tensor]:
    """Of one softmax map, in float64.

    Args:
        scores: `[P, H, T]`; -inf for unseen keys.
        parts: of the P questions.
        sinks: learned logits `[H]` that take part in the softmax; their share goes to no key.

    Returns:
        Each `[P, H]`, as in `signed_masses`, and `entropy` of the weights in nats, a learned sink's included.
    """
    weights = row_weights(scores.double(), sinks)
    learned = (1 - weights.sum(-1)).clamp(min=0) if sinks is not None else torch.zeros(weights.shape[:2]).double()
    entropy = torch.special.entr(weights).sum(-1) + torch.special.entr(learned)
    return {**_masses(weights, parts), "entropy": entropy}


def signed_masses(first: Tensor, second: Tensor, lam: Tensor, parts: Roles) -> dict[str, Tensor]:
    """Of the signed map, softmax(first) - lam softmax(second), in float64.

    Args:
        first, second: scores `[P, H, T]`.
        lam: `[P, H]`.
        parts: of the P questions.

    Returns:
        Each `[P, H]`: `answer`, the signed sum of its weights; `noise`, `sink`, `own`, the sums of absolute weights;
        `absolute` of all keys together, of which `negative` is below zero; `answer_share`, `noise_share` and
        `sink_share` of the absolute mass (0 where there is none).
    """
    signal, noise = (scores.double().softmax(-1) for scores in (first, second))
    return _masses(signal - lam.double()[..., None] * noise, parts)


def _masses(weights: Tensor, parts: Roles) -> dict[str, Tensor]:
    absolute = weights.abs()
    total = absolute.sum(-1)
    each = {name: (absolute * of).sum(-1) for name, of in parts._asdict().items()}
    nothing = total == 0  # and not a total that is no number, whose shares are none either
    shares = {f"{name}_share": (each[name] / total).masked_fill(nothing, 0.0) for name in ("answer", "noise", "sink")}
    signed = {"answer": (weights * parts.answer).sum(-1)}
    return {**each, **signed, **shares, "absolute": total, "negative": (-weights).clamp(min=0).sum(-1)}
