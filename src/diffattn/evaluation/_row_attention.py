"""Attention of some query rows: the scores, and the heads' outputs, with softcap and learned sinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from diffattn.evaluation._lazy_mask import Mask, is_seen, mask_of_queries, mask_of_rows, stretch_of

__all__ = ["AttentionCall", "row_scores", "row_weights"]


class AttentionCall(NamedTuple):
    """One call of an attention function of transformers.

    Attributes:
        module: the attention layer.
        query: `[B, heads, T, D]`.
        key, value: `[B, KV heads, Tk, D]`, KV heads dividing heads.
        mask: which keys a query sees.
        scaling: of q.k; None for D^-0.5.
        softcap: c, where the scores are bounded by c tanh(score / c).
        sinks: learned logits `[heads]`, each a key without a value; None for none.
        change: what is done to scores `[B, heads, rows, keys]`, -inf for unseen keys, before softmax; None for nothing.
    """

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Mask
    scaling: float | None
    softcap: float | None
    sinks: Tensor | None
    change: Callable[[Tensor], Tensor] | None = None

    @property
    def is_explicit(self) -> bool:
        """torch's own attention has neither softcap nor sinks, and changes no scores: they have to be made."""
        return any(part is not None for part in (self.softcap, self.sinks, self.change))

    def scores_of(self, queries: Tensor) -> Tensor:
        """Scores of chosen queries int64 `[B, Q]`, as `row_scores` gives them, `[B, heads, Q, Tk]`."""
        chosen = queries[:, None, :, None].expand(-1, self.query.shape[1], -1, self.query.shape[3])
        seen = mask_of_queries(self.mask, queries, self.key.shape[2])
        return self._changed(row_scores(self.query.gather(2, chosen), self.key, seen, self.scaling, self.softcap))

    def scores_of_rows(self, first: int, end: int, every: int = 1) -> Tensor:
        """Scores of queries first, first + every, ... below end over the keys of their stretch."""
        keys = stretch_of(self.mask, first, end, self.key.shape[2])
        seen = mask_of_rows(self.mask, first, end, keys, self.query.device, every)
        query, key = self.query[:, :, first:end:every], self.key[:, :, keys]
        return self._changed(row_scores(query, key, seen, self.scaling, self.softcap))

    def outputs_of_rows(self, first: int, end: int) -> Tensor:
        """The heads' outputs of queries first to end - 1, `[B, rows, heads, D]`."""
        keys = stretch_of(self.mask, first, end, self.key.shape[2])
        value = self.value[:, :, keys]
        if self.is_explicit:
            weights = row_weights(self.scores_of_rows(first, end), self.sinks).to(value.dtype)
            grouped = weights.unflatten(1, (value.shape[1], -1)).flatten(2, 3) @ value
            return grouped.view(*weights.shape[:3], -1).transpose(1, 2)
        rows = mask_of_rows(self.mask, first, end, keys, self.query.device)
        query, key = self.query[:, :, first:end], self.key[:, :, keys]
        return sdpa_attention_forward(self.module, query, key, value, rows, scaling=self.scaling)[0]

    def _changed(self, scores: Tensor) -> Tensor:
        return scores if self.change is None else self.change(scores)


def row_scores(query: Tensor, key: Tensor, seen: Tensor | None, scaling: float | None, softcap: float | None) -> Tensor:
    """What softmax takes of some queries, `[B, heads, rows, Tk]`, float32, -inf for unseen keys.

    Args:
        query: `[B, heads, rows, D]`.
        key: `[B, KV heads, Tk, D]`, KV heads dividing heads.
        seen: `[B, 1 or heads, rows, Tk]`, bool or added to the scores; None where all keys are seen.
        scaling: of q.k; None for D^-0.5.
        softcap: c, where the scores are bounded by c tanh(score / c).
    """
    width, heads = query.shape[-1], query.shape[1]
    grouped = query.float().unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    scores = (grouped @ key.float().transpose(2, 3)).mul_(width**-0.5 if scaling is None else scaling)
    scores = scores.view(query.shape[0], heads, -1, key.shape[2])
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if seen is None:
        return scores
    scores = scores if seen.dtype == torch.bool else scores + seen
    return scores.masked_fill_(~is_seen(seen), -torch.inf)


def row_weights(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Softmax over the last dimension of scores `[B, heads, ..., T]`, in their dtype.

    A learned sink takes its share as one more key, which has no place in the result: weights then sum to less than 1.

    Args:
        sinks: logits `[heads]`, or None.
    """
    if sinks is None:
        return scores.softmax(-1)
    column = sinks.detach().to(scores).view(-1, *[1] * (scores.ndim - 2)).expand(*scores.shape[:-1], 1)
    return torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]
