"""What this machine reaches: the rate of a matrix product and of reading memory; `python -m` prints it as JSON.

The planner asks for it in a process of its own, so that it loads no torch itself.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch

__all__ = ["measure_rates"]

_ROUNDS = 7
_WIDTH = 2048
_READ_BYTES = 1 << 29


def measure_rates(dtype: str) -> dict[str, float | int | str]:
    """FLOPs a second of a square matrix product in `dtype`, and bytes a second of summing an array: best of 7 rounds.

    Args:
        dtype: "float32", "bfloat16" or "float16".
    """
    kind = getattr(torch, dtype)
    left, right = (torch.randn(_WIDTH, _WIDTH).to(kind) for _ in range(2))
    array = torch.ones(_READ_BYTES // 4)
    return {
        "dtype": dtype,
        "flops": 2 * _WIDTH**3 / _best(lambda: left @ right),
        "bandwidth": _READ_BYTES / _best(lambda: array.sum()),
        "threads": torch.get_num_threads(),
    }


def _best(work: Callable[[], object]) -> float:
    """Seconds of the fastest round, after an untimed one."""
    work()
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    print(json.dumps(measure_rates(sys.argv[1])))
