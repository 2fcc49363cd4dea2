"""The machine that a plan is for: a named one, one given by its numbers, or this one, measured."""

from __future__ import annotations

import json
import subprocess
import sys

from diffattn.errors import UserError
from diffattn.planning.hardware import Hardware, find_hardware

__all__ = ["choose_hardware"]

_MEASURED = ("float32", "bfloat16", "float16")


def choose_hardware(name: str, dtype: str, flops: float | None, bandwidth: float | None) -> Hardware:
    """The machine of the roofline.

    Args:
        name: one of `planning.hardware.MACHINES`, or "cpu" for this one, measured in a process of its own.
        dtype: of weights and cache.
        flops, bandwidth: FLOPs and bytes a second, which stand for a machine of their own where both are given.

    Raises:
        UserError: an unknown name, one number without the other, or a measurement that failed.
    """
    if flops is not None or bandwidth is not None:
        return _given(dtype, flops, bandwidth)
    if name.lower() == "cpu":
        return _measured(dtype)
    try:
        return find_hardware(name)
    except ValueError as error:
        raise UserError(str(error)) from error


def _given(dtype: str, flops: float | None, bandwidth: float | None) -> Hardware:
    if flops is None or bandwidth is None or not all(0 < rate < float("inf") for rate in (flops, bandwidth)):
        raise UserError("a machine of your own needs both --flops and --bandwidth, a second, above 0")
    return Hardware(name="the machine given", flops={dtype: flops}, bandwidth=bandwidth, source="given")


def _measured(dtype: str) -> Hardware:
    if dtype not in _MEASURED:
        raise UserError(f"a CPU is measured in {', '.join(_MEASURED)}, not in {dtype}: give --flops and --bandwidth")
    print("measuring this machine's arithmetic and memory", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "diffattn.experiments.machine_rates", dtype]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        reason = (process.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(f"this machine cannot be measured in {dtype} ({reason}): give --flops and --bandwidth")
    found = json.loads(process.stdout)
    return Hardware(
        name=f"this CPU, {found['threads']} threads",
        flops={dtype: found["flops"]},
        bandwidth=found["bandwidth"],
        source="measured now: a matrix product, and reading half a GiB",
    )
