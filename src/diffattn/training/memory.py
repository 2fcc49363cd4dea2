"""The peak memory of a training, and what exactly was measured."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

import torch

__all__ = ["PeakMemory"]

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


class PeakMemory:
    """Peak memory from its construction on.

    Attributes:
        kind: what `bytes` returns: allocated CUDA memory, or the resident set of the whole process, since this
            object was made or, where the system cannot forget earlier peaks, since the process began.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        gc.collect()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self.kind = "allocated CUDA memory during training"
        elif _forget_peak():
            self.kind = "resident set of the process during training"
        else:
            self.kind = "resident set of the process since it began"

    def bytes(self) -> int | None:
        """The peak so far; None where the system tells nothing."""
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        return _status_peak() or _rusage_peak()


def _forget_peak() -> bool:
    """On Linux, give freed memory back and set the high-water mark to the present size; False where forbidden."""
    if not sys.platform.startswith("linux"):
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return _status_peak() is not None


def _status_peak() -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    kibibytes = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kibibytes[0]) * 1024 if kibibytes else None


def _rusage_peak() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
