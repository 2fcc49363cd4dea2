"""A call cut into pieces that a fused kernel takes as they are, so that no Tq x Tk mask is built.

Key lengths, contiguous padding and packed documents leave each query a run of consecutive keys: those calls become
unmasked rectangles and causal squares, on keys that are valid. What is left (a window's band, an arbitrary mask)
becomes blocks of queries, each with the keys that it may reach and a mask that is built when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

import torch
from torch import Tensor

from diffattn.ops.types import Sight

__all__ = ["Block", "Kind", "Piece", "plan"]

# Queries of a masked block: its mask stays small beside its keys, and the kernel's products large.
BLOCK = 256
# Documents shorter than this on average are cheaper as masked blocks than as a call each.
SHORTEST_DOCUMENT = 32


# First query and one past the last, first key and one past the last.
Document = tuple[int, int, int, int]


class Kind(Enum):
    """How the queries of a block see the keys of a piece: all of them, as a causal square, or by a mask."""

    FULL = "full"
    CAUSAL = "causal"
    MASKED = "masked"


@dataclass(frozen=True)
class Piece:
    """Consecutive keys of one block."""

    keys: slice
    kind: Kind


@dataclass(frozen=True)
class Block:
    """Consecutive queries of consecutive batch rows, and the keys that they see: one masked piece, or unmasked ones.

    Queries in no block are blind.
    """

    batch: slice
    queries: slice
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Span:
    """Queries `q0 .. q1` that may see all of the keys `k0 .. k1` but for causal and window.

    Query i stands at the key i + offset.
    """

    q0: int
    q1: int
    k0: int
    k1: int
    offset: int


@dataclass(frozen=True)
class _Row:
    """What the arguments' values say of one batch row; `spans` is None where only a mask can say it."""

    end: int
    spans: tuple[Document, ...] | None


def plan(sight: Sight, batch: int) -> Iterator[Block]:
    """Blocks that together are the call; reads the values of lengths, padding and segments."""
    start = 0
    for row, same in groupby(_rows(sight, batch)):
        stop = start + sum(1 for _ in same)
        rows, offset = slice(start, stop), row.end - sight.q_length
        if row.spans is None:
            yield from _masked(rows, Span(0, sight.q_length, 0, row.end, offset), sight)
        else:
            for span in row.spans:
                yield from _span(rows, Span(*span, offset), sight)
        start = stop


def _rows(sight: Sight, batch: int) -> list[_Row]:
    if sight.mask is None and sight.k_lengths is None and sight.segment_ids is None:
        return [_Row(sight.k_length, ((0, sight.q_length, 0, sight.k_length),))] * batch
    ends = [sight.k_length] * batch if sight.k_lengths is None else sight.k_lengths.tolist()
    extents = _extents(sight, batch)
    documents = _documents(sight, batch)
    return [_Row(*row) for row in zip(ends, map(_clip, documents, extents, ends), strict=True)]


def _clip(documents: list[Document] | None, extent: tuple[int, int] | None, end: int) -> tuple[Document, ...] | None:
    """The documents' keys that are neither padding nor past the end."""
    if documents is None or extent is None:
        return None
    first, last = extent[0], min(extent[1], end)
    clipped = ((q0, q1, max(k0, first), min(k1, last)) for q0, q1, k0, k1 in documents)
    return tuple(span for span in clipped if span[2] < span[3])


def _extents(sight: Sight, batch: int) -> list[tuple[int, int] | None]:
    """The first key that is not padding and the one past the last, for each batch row; None where keys between are."""
    if sight.mask is None:
        return [(0, sight.k_length)] * batch
    if sight.mask.shape[1] > 1 or sight.mask.shape[2] > 1:
        return [None] * batch
    keys = sight.mask[:, 0, 0, :].expand(batch, sight.k_length)
    firsts, counts = keys.int().argmax(1).tolist(), keys.sum(1).tolist()
    lasts = (sight.k_length - keys.flip(1).int().argmax(1)).tolist()
    return [
        (first, first + count) if last - first == count or count == 0 else None
        for first, last, count in zip(firsts, lasts, counts, strict=True)
    ]


def _documents(sight: Sight, batch: int) -> list[list[Document] | None]:
    """Queries and keys of each packed document, for each batch row; None where one stands in several places."""
    if sight.segment_ids is None:
        return [[(0, sight.q_length, 0, sight.k_length)]] * batch
    q_ids, k_ids = sight.segment_ids
    return [_pair_runs(_runs(q), _runs(k)) for q, k in zip(q_ids, k_ids, strict=True)]


def _runs(ids: Tensor) -> list[tuple[int, int, int]]:
    """(id, first position, one past the last) of each run of equal ids."""
    values, counts = torch.unique_consecutive(ids, return_counts=True)
    stops = counts.cumsum(0)
    return list(zip(values.tolist(), (stops - counts).tolist(), stops.tolist(), strict=True))


def _pair_runs(queries: list[tuple[int, int, int]], keys: list[tuple[int, int, int]]) -> list[Document] | None:
    where = {name: (start, stop) for name, start, stop in keys}
    length = queries[-1][2] if queries else 0
    if len(where) < len(keys) or (len(queries) > 1 and length < SHORTEST_DOCUMENT * len(queries)):
        return None
    return [(q0, q1, *where[name]) for name, q0, q1 in queries if name in where]


def _span(rows: slice, span: Span, sight: Sight) -> Iterator[Block]:
    if not _within_window(span, sight):
        yield from _masked(rows, span, sight)
        return
    if not sight.causal:
        yield Block(rows, slice(span.q0, span.q1), (Piece(slice(span.k0, span.k1), Kind.FULL),))
        return
    first = max(span.q0, span.k0 - span.offset)  # earlier queries stand before every key
    all_seen = max(first, min(span.q1, span.k1 - span.offset))  # from here on a query sees every key
    if first < all_seen:
        yield Block(rows, slice(first, all_seen), _triangle(span.k0, first + span.offset, all_seen + span.offset))
    if all_seen < span.q1:
        yield Block(rows, slice(all_seen, span.q1), (Piece(slice(span.k0, span.k1), Kind.FULL),))


def _triangle(start: int, own: int, stop: int) -> tuple[Piece, ...]:
    """Keys of queries that stand at `own .. stop`: those before all of them, and the causal square."""
    if stop - own == 1:
        return (Piece(slice(start, stop), Kind.FULL),)
    square = Piece(slice(own, stop), Kind.CAUSAL)
    return (square,) if start == own else (Piece(slice(start, own), Kind.FULL), square)


def _reach(sight: Sight) -> tuple[int | None, int | None]:
    """Keys before and after its own position that a query sees; None for all."""
    if sight.window is None:
        return None, 0 if sight.causal else None
    return (sight.window - 1, 0) if isinstance(sight.window, int) else sight.window


def _within_window(span: Span, sight: Sight) -> bool:
    """Whether the window hides none of the span's keys from any query that stands among or before them."""
    if sight.window is None:
        return True
    left, right = _reach(sight)
    last_own, first_own = span.q1 - 1 + span.offset, span.q0 + span.offset
    left_free = left is None or last_own - left <= span.k0
    return left_free and (sight.causal or right is None or first_own + right >= span.k1 - 1)


def _masked(rows: slice, span: Span, sight: Sight) -> Iterator[Block]:
    """Blocks of queries, each with the keys that causal and window let any of them reach.

    Unmasked pieces for the keys that all of a block reach, joined with masked edges, were slower at windows of 1,024.
    """
    left, right = _reach(sight)
    for start in range(span.q0, span.q1, BLOCK):
        stop = min(start + BLOCK, span.q1)
        low = span.k0 if left is None else max(span.k0, start + span.offset - left)
        high = span.k1 if right is None else min(span.k1, stop + span.offset + right)
        if low < high:
            yield Block(rows, slice(start, stop), (Piece(slice(low, high), Kind.MASKED),))
