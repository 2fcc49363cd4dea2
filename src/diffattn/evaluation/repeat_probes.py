"""Real text that ends by repeating a stretch of itself, so that one key is known to be the one to attend to.

A probe of T tokens with span s and depth p, its last token being the query:

    position   0      1 ...      a-s .. a-1    a   ...     T-s-1   T-s .. T-1
    token      bos    text ...   r1  .. rs     x   ... text ...    r1  .. rs
                                               ^                          ^
                                               answer                     query

The text is a stretch of the corpus; its tokens a-s to a-1 are repeated at the end. The query's token rs stood at a-1
before, so an induction head attends to the answer, position a, whose token x comes next. The repeat began at
a - s = 1 + round(p (T - 2s - 2)): at depth 0 right after the first token, at depth 1 so late that x is the last token
before the repeat. A stretch that stands anywhere else in the probe is never chosen: the answer is the only one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from transformers import PreTrainedTokenizerBase

from diffattn.errors import UserError

__all__ = ["Probes", "TokenSource", "make_probes", "repeat_start", "shortest_length"]

_TRIES = 30  # places looked at for each probe


class TokenSource(Protocol):
    """What probes are made from: `PreparedData` or `EncodedCorpus`."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase: ...

    def tokens(self, split: str) -> np.ndarray: ...


@dataclass(frozen=True)
class Probes:
    """Probes of one length.

    Attributes:
        tokens: int64 `[probes, length]`.
        answers: position of each probe's answer, int64 `[probes]`.
        depths: the depth of each.
    """

    tokens: np.ndarray
    answers: np.ndarray
    depths: np.ndarray


def shortest_length(span: int) -> int:
    """The first token, the stretch, the answer, the repeat."""
    return 2 * span + 2


def repeat_start(length: int, span: int, depth: float) -> int:
    """Where the stretch stands that the end repeats."""
    return 1 + round(depth * (length - shortest_length(span)))


def make_probes(
    source: TokenSource, split: str, length: int, depths: tuple[float, ...], count: int, span: int, seed: int
) -> Probes:
    """`count` probes for each depth, from different places of a split; the same for the same arguments.

    The first token is the tokenizer's bos where it has one, else one of the text.

    Raises:
        UserError: the split is too short, or so repetitive that too few stretches are unique.
    """
    stream, bos = source.tokens(split), source.tokenizer.bos_token_id
    needed = length - span - (bos is not None)
    places = len(stream) - needed + 1
    if places < count:
        raise UserError(
            f"the {split} split has {len(stream):,} tokens, too few for {count} probes of {length:,}: "
            "give more text or a smaller length"
        )
    rows, starts = [], []
    for depth in depths:
        start = repeat_start(length, span, depth)
        order = np.random.default_rng([seed, length, round(depth * 1e6)])
        tried = order.choice(places, min(places, _TRIES * count), replace=False)
        texts = (stream[place : place + needed].astype(np.int64) for place in tried)
        found = _first_unique(texts, bos, start, span, count)
        if len(found) < count:
            raise UserError(
                f"the {split} split repeats itself so often that stretches of {span} tokens are not unique within "
                f"{length:,}: give other text or a longer span"
            )
        rows += found
        starts += [start] * count
    return Probes(np.stack(rows), np.array(starts) + span, np.repeat(np.array(depths), count))


def _first_unique(texts: Iterable[np.ndarray], bos: int | None, start: int, span: int, count: int) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    for text in texts:
        if len(found) == count:
            break
        context = text if bos is None else np.concatenate([[bos], text])
        tokens = np.concatenate([context, context[start : start + span]])
        if _is_unique(tokens, span):
            found.append(tokens)
    return found


def _is_unique(tokens: np.ndarray, span: int) -> bool:
    """Whether the last `span` tokens stand in the probe exactly twice, the end included."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, span)
    return int((windows == tokens[-span:]).all(1).sum()) == 2
