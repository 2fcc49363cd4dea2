"""What the operator and its backends pass to one another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Backend", "BackendReport", "DiffInputs", "DiffWeights", "Sight", "Window", "compute_dtype"]

Window = int | tuple[int, int] | None


class Backend(str, Enum):
    """An implementation of the operator. `AUTO` takes the first that can serve the inputs."""

    AUTO = "auto"
    REFERENCE = "reference"
    SDPA = "sdpa"


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of softmax, subtraction and lambda: float64 for float64 inputs, float32 for all others."""
    return torch.float64 if dtype == torch.float64 else torch.float32


@dataclass(frozen=True, kw_only=True, eq=False)
class Sight:
    """What each query may see, validated: all restrictions hold together; arguments as in `diffattn.diff_attention`.

    `mask` is 4-d. `q_length`, `k_length` are Tq and Tk.
    """

    q_length: int
    k_length: int
    causal: bool
    window: Window = None
    mask: Tensor | None = None
    k_lengths: Tensor | None = None
    segment_ids: tuple[Tensor, Tensor] | None = None

    @property
    def needs_mask(self) -> bool:
        """Whether anything but `causal` restricts what a query sees."""
        return any(part is not None for part in (self.window, self.mask, self.k_lengths, self.segment_ids))

    def rows(self, batch: slice) -> Sight:
        """What the queries of some batch rows may see."""
        mask, lengths, segments = self.mask, self.k_lengths, self.segment_ids
        return replace(
            self,
            mask=mask if mask is None or mask.shape[0] == 1 else mask[batch],
            k_lengths=None if lengths is None else lengths[batch],
            segment_ids=None if segments is None else (segments[0][batch], segments[1][batch]),
        )

    @property
    def same_for_all_queries(self) -> bool:
        """Whether every query of a batch row sees the same keys, as in decoding, so that no mask has a row a query."""
        by_position = (self.causal and self.q_length > 1) or (self.window is not None and self.q_length > 1)
        by_query = self.mask is not None and self.mask.shape[2] > 1
        return not (by_position or by_query or (self.segment_ids is not None and self.q_length > 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class DiffInputs:
    """One validated call, as every backend receives it; shapes as in `diffattn.diff_attention`.

    `lam` is a tensor of the compute dtype that broadcasts to `[B, H, Tq, 1]`, `scale` is set.
    """

    q1: Tensor
    q2: Tensor
    k: Tensor
    v: Tensor
    lam: Tensor
    sight: Sight
    scale: float
    dropout_p: float

    @property
    def heads(self) -> int:
        return self.q1.shape[1]

    @property
    def noise_heads(self) -> int:
        return self.q2.shape[1]

    @property
    def kv_heads(self) -> int:
        return self.k.shape[1]

    @property
    def map_dim(self) -> int:
        return self.q1.shape[3]

    @property
    def separate_keys(self) -> bool:
        """Whether `k` holds a key for each map (V1) instead of one for both (V2)."""
        return self.k.shape[3] == 2 * self.map_dim


class DiffWeights(NamedTuple):
    """The attention maps of one call, each `[B, H, Tq, Tk]` in the compute dtype.

    A row of `signal` and of `noise` sums to 1, a row of `signed` to 1 - lam; a row that sees nothing is 0.
    """

    signed: Tensor
    signal: Tensor
    noise: Tensor


@dataclass(frozen=True, kw_only=True)
class BackendReport:
    """Which backend can serve a call.

    Attributes:
        reasons: for each backend why it cannot serve; an empty list means that it can.
        costs: for a backend that needs more than linear memory, what it builds.
        auto: the backend that `backend="auto"` takes.
    """

    reasons: dict[str, list[str]]
    costs: dict[str, str]
    auto: str

    def __str__(self) -> str:
        lines = [self._line(name) for name in self.reasons]
        return "\n".join([*lines, f"auto takes {self.auto}"])

    def _line(self, name: str) -> str:
        state = "; ".join(self.reasons[name]) or "can serve"
        cost = self.costs.get(name)
        return f"{name}: {state}" + (f" ({cost})" if cost else "")
