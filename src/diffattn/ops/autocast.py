"""The operator under `torch.autocast`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["as_autocast"]


def as_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in autocast's dtype where it is on; float64, and what validation will refuse, as it is."""
    return tuple(_cast(x) if isinstance(x, Tensor) else x for x in tensors)


def _cast(x: Tensor) -> Tensor:
    device: Any = x.device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return x
    narrow = x.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return x.to(torch.get_autocast_dtype(device)) if narrow else x
