"""The largest absolute values and the median of many numbers that are never all in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Magnitudes", "RunningMagnitudes", "merged"]

_KEPT = 1 << 16  # as many are kept as they are, and their median is exact
# Of a float32 without its sign, eight bits of exponent and ten of its digits: prefixes have the order of the numbers.
_DROPPED = 13
_BINS = 1 << (31 - _DROPPED)
_INFINITE = 0x7F800000 >> _DROPPED


@dataclass(frozen=True, kw_only=True)
class Magnitudes:
    """Of the finite ones among some numbers.

    Attributes:
        largest: absolute values at the ranks that were asked for, 1 for the largest; None where there are fewer.
        median: of the absolute values, the mean of the middle two where their number is even; None where there are
            none. Exact up to 65,536 numbers, beyond that to 2^-11 of its value.
        count: how many are finite.
        not_finite: how many others there were: a model that diverged.
    """

    largest: tuple[float | None, ...]
    median: float | None
    count: int
    not_finite: int


class RunningMagnitudes:
    """Takes numbers a tensor at a time; about 2 MB.

    Args:
        most: how many of the largest are kept.
    """

    def __init__(self, most: int = 100) -> None:
        self._most = most
        self._top = torch.empty(0)
        self._kept: list[Tensor] | None = []
        self._bins = torch.zeros(_BINS, dtype=torch.int64)

    def add(self, values: Tensor, *, masked: bool = False) -> None:
        """Take float values of any shape and device; with `masked`, those that are -inf are no values."""
        magnitude = values.detach().float().abs().flatten()
        bins = torch.bincount(magnitude.view(torch.int32) >> _DROPPED, minlength=_BINS).cpu()
        if masked:
            bins[_INFINITE] -= int(torch.isneginf(values).sum())
        threshold = self._top[-1] if len(self._top) == self._most else -1.0
        finite = magnitude < torch.inf
        self._join_top(magnitude[finite & (magnitude > threshold)])
        self._bins += bins
        self._keep(magnitude, finite)

    def merge(self, other: RunningMagnitudes) -> None:
        """Take all that the other took."""
        self._join_top(other._top)
        self._bins += other._bins
        together = None if self._kept is None or other._kept is None else [*self._kept, *other._kept]
        self._kept = together if self._count <= _KEPT else None

    def result(self, ranks: Sequence[int]) -> Magnitudes:
        """The values at these ranks, each at most `most`, and the median."""
        top, count = self._top.tolist(), self._count
        return Magnitudes(
            largest=tuple(top[rank - 1] if rank <= len(top) else None for rank in ranks),
            median=self._median() if count else None,
            count=count,
            not_finite=int(self._bins.sum()) - count,
        )

    @property
    def _count(self) -> int:
        return int(self._bins[:_INFINITE].sum())

    def _join_top(self, values: Tensor) -> None:
        values = values.topk(min(self._most, len(values))).values.cpu()
        joined = torch.cat([self._top, values])
        self._top = joined.topk(min(self._most, len(joined))).values

    def _keep(self, magnitude: Tensor, finite: Tensor) -> None:
        if self._kept is not None:
            self._kept = None if self._count > _KEPT else [*self._kept, magnitude[finite].cpu()]

    def _median(self) -> float:
        middle = ((self._count - 1) // 2, self._count // 2)
        if self._kept is not None:
            ordered = torch.cat(self._kept).double().sort().values
            return sum(ordered[rank].item() for rank in middle) / 2
        below = self._bins.cumsum(0)
        return sum(_centre(int(torch.searchsorted(below, rank, right=True))) for rank in middle) / 2


def _centre(index: int) -> float:
    edges = torch.tensor([index << _DROPPED, (index + 1) << _DROPPED], dtype=torch.int32).view(torch.float32)
    return edges.double().mean().item()


def merged(all_of_them: Iterable[RunningMagnitudes], most: int) -> RunningMagnitudes:
    """One that took all that these took."""
    together = RunningMagnitudes(most)
    for one in all_of_them:
        together.merge(one)
    return together
