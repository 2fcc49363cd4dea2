"""Where a result was made: versions, machine, command."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

import diffattn
from diffattn.training import choose_device

__all__ = ["command_line", "machine", "now", "versions"]

_PACKAGES = ("torch", "transformers", "tokenizers")


def versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str]:
    """Versions of Python, of the packages and of this one; "absent" for what is not installed."""
    found = {name: _version(name) for name in packages}
    return {"python": platform.python_version(), **found, "diffattn": diffattn.__version__}


def machine() -> dict[str, Any]:
    """Platform, processor, cores that this process may use, threads that torch uses, memory, and the device."""
    return {
        "platform": platform.platform(),
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_bytes": psutil.virtual_memory().total,
        "device": _device(),
    }


def command_line(arguments: Sequence[str] | None = None) -> str:
    """The command as it could be typed again: `diffattn` and its arguments."""
    return shlex.join(["diffattn", *(sys.argv[1:] if arguments is None else arguments)])


def now() -> str:
    """The time, UTC, to the second: 2026-01-31T12:00:00Z."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _device() -> str:
    device = choose_device()
    return f"cuda: {torch.cuda.get_device_name(device)}" if device.type == "cuda" else device.type
