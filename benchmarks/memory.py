"""Peak memory of one call, forward and backward, over length: linear, with causal, a window or packed documents.

    python -m benchmarks.memory
    python -m benchmarks.memory --lengths 2048 4096 --v1

Resident memory above what the inputs take, in MB, and how often the peak at the first length it is. `mask` is what
autograd keeps of torch's attention with a boolean mask, what one would otherwise write for a window.
"""

from __future__ import annotations

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("benchmarks")]  # operator.py is no standard module

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from diffattn import diff_attention
from diffattn.training.memory import PeakMemory

WINDOW, DOCUMENT = 512, 700


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 4096, 8192, 16384])
    parser.add_argument("--v1", action="store_true", help="a key for each map")
    return parser.parse_args()


def inputs(length: int, pair: bool) -> list[Tensor]:
    width = 64 if pair else 32
    shapes = [(1, 2, length, 32)] * 2 + [(1, 1, length, width)] * 2
    return [torch.randn(shape).requires_grad_() for shape in shapes]


def restrictions(length: int) -> dict[str, dict[str, Any]]:
    ids = torch.arange(length)[None] // DOCUMENT
    scattered = torch.arange(length)[None] % 3
    return {
        "causal": {},
        "window": {"window": WINDOW},
        "documents": {"segment_ids": (ids, ids)},
        "scattered documents": {"segment_ids": (scattered, scattered)},
    }


def masked(q1: Tensor, q2: Tensor, k: Tensor, v: Tensor) -> Tensor:
    position = torch.arange(k.shape[2])
    seen = (position <= position[:, None]) & (position > position[:, None] - WINDOW)
    first, second = (F.scaled_dot_product_attention(q, k, v, seen, enable_gqa=True) for q in (q1, q2))
    return first - 0.5 * second


def peak(call: Callable[..., Tensor], x: list[Tensor]) -> float:
    """MB above the resident memory before the call."""
    memory = PeakMemory(torch.device("cpu"))
    before = memory.bytes() or 0
    call(*x).sum().backward()
    after = memory.bytes() or 0
    for leaf in x:
        leaf.grad = None
    return (after - before) / 1e6


def main() -> None:
    args = parse()
    warm = inputs(256, args.v1)
    for case in restrictions(256).values():  # what torch sets up at its first call does not count
        peak(lambda *x, case=case: diff_attention(*x, 0.5, backend="sdpa", **case), warm)
    print(f"torch {torch.__version__}, {'V1' if args.v1 else 'V2'}, 2 heads, width 32, float32, MB")
    print(f"{'':<22}" + "".join(f"{length:>14,}" for length in args.lengths))
    for name in [*restrictions(1), "mask, V2"]:
        if name == "mask, V2" and args.v1:
            continue
        peaks = []
        for length in args.lengths:
            case = restrictions(length).get(name, {})
            call = masked if name == "mask, V2" else lambda *x, case=case: diff_attention(*x, 0.5, **case)
            peaks.append(peak(call, inputs(length, args.v1)))
        print(f"{name:<22}" + "".join(f"{size:>8.1f} {size / peaks[0]:>4.1f}x" for size in peaks))


if __name__ == "__main__":
    main()
