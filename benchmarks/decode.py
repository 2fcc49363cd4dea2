"""The attention of one decode step, measured beside the planner's roofline of this machine.

    python -m benchmarks.decode
    python -m benchmarks.decode --bfloat16 --heads 32 --kv-heads 8 --contexts 4096 32768

Softmax, V1 and V2 at one width and with the same cache, alternately in one process. The roofline is that of a matrix
product and of reading memory, measured just before. "predicted" and "measured" are multiples of softmax's step: the
median over rounds, with its quartiles. "of the roofline" is the least time over the time taken: what the kernel leaves.
"""

from __future__ import annotations

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("benchmarks")]  # operator.py is no standard module

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from diffattn import diff_attention, softmax_attention
from diffattn.experiments.environment import machine, versions
from diffattn.experiments.machine_rates import measure_rates
from diffattn.planning.attention import Attention, variant

VARIANTS = ("softmax", "v1", "v2")
Rates = dict[str, float]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"heads": 32, "kv_heads": 8, "map_dim": 128, "rounds": 21}.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value, help=f"default {value}")
    parser.add_argument("--contexts", type=int, nargs="+", default=[4096, 16384, 32768])
    parser.add_argument("--bfloat16", action="store_true")
    return parser.parse_args()


def call(attention: Attention, context: int, dtype: torch.dtype) -> Callable[[], object]:
    """One query on a filled cache in this attention's geometry."""
    pairs, dim = attention.heads, attention.map_dim
    kv_heads, key_dim = attention.values, attention.keys // attention.values * dim
    q = [torch.randn(1, pairs, 1, dim, dtype=dtype) for _ in range(2)]
    k = torch.randn(1, context, kv_heads, key_dim, dtype=dtype).transpose(1, 2)
    v = torch.randn(1, context, kv_heads, attention.value_dim, dtype=dtype).transpose(1, 2)
    if attention.name == "softmax":
        return lambda: softmax_attention(q[0], k, v)
    lam = torch.rand(1, pairs, 1)
    return lambda: diff_attention(*q, k, v, lam)


def least_seconds(attention: Attention, context: int, dtype: torch.dtype, rates: Rates) -> float:
    flops = context * attention.pair_flops(decode=True)
    stored = context * attention.cache_elements * dtype.itemsize
    return max(flops / rates["flops"], stored / rates["bandwidth"])


def rounds(calls: dict[str, Callable[[], object]], count: int) -> dict[str, list[float]]:
    for work in calls.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(count):
        for name, work in calls.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return times


def report(attentions: dict[str, Attention], context: int, dtype: torch.dtype, rates: Rates, count: int) -> None:
    times = rounds({name: call(attention, context, dtype) for name, attention in attentions.items()}, count)
    least = {name: least_seconds(attention, context, dtype, rates) for name, attention in attentions.items()}
    for name, found in times.items():
        ratios = [ours / base for ours, base in zip(found, times["softmax"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        predicted = least[name] / least["softmax"]
        middle_ms = 1000 * statistics.median(found)
        print(
            f"{context:8,}  {name:8}  {middle_ms:8.3f} ms  predicted {predicted:5.2f}  measured {middle:5.2f} "
            f"({low:.2f} to {high:.2f})  of the roofline {1000 * least[name] / middle_ms:4.0%}",
            flush=True,
        )


@torch.inference_mode()
def main() -> None:
    args = parse()
    dtype = torch.bfloat16 if args.bfloat16 else torch.float32
    shape = {"heads": args.heads, "maps": args.heads, "keys": args.kv_heads, "values": args.kv_heads}
    width = args.heads * args.map_dim
    base = Attention(name="softmax", width=width, map_dim=args.map_dim, value_dim=args.map_dim, **shape)
    attentions = {name: variant(base, name) for name in VARIANTS}
    rates = measure_rates(str(dtype).removeprefix("torch."))
    print(f"{machine()['cpu']}, {rates['threads']} threads, torch {versions()['torch']}, {dtype}")
    print(f"{args.heads} heads on {args.kv_heads} key/value heads, width {args.map_dim}")
    ridge = rates["flops"] / rates["bandwidth"]
    print(f"{rates['flops'] / 1e9:.0f} GFLOP/s, {rates['bandwidth'] / 1e9:.1f} GB/s, ridge {ridge:.1f} FLOPs a byte")
    for name, attention in attentions.items():
        print(f"{name}: {attention.intensity(dtype.itemsize):.3g} FLOPs a byte")
    for context in args.contexts:
        report(attentions, context, dtype, rates, args.rounds)


if __name__ == "__main__":
    main()
