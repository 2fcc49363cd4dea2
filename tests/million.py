"""Holds the operator to loops over a million random calls, and reports.

    python tests/million.py
    python tests/million.py --cases 20000 --first-seed 5000000 --processes 4 --out report.json

Ctrl-C ends it early with a report of what was done. A case is its seed: one that fails is run again by
`python tests/million.py --cases 1 --first-seed SEED`. Exit status 1 where any fails. What a case is, and what must hold
of it: `random_cases.py`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import torch

from diffattn import __version__
from random_cases import Case, check_case, draw_case

CHUNK = 250
FAILURES_KEPT = 20


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="a JSON file for the report")
    return parser.parse_args()


def run_chunk(seeds: range) -> tuple[int, Counter[str], list[dict[str, object]]]:
    torch.set_num_threads(1)
    traits: Counter[str] = Counter()
    failures: list[dict[str, object]] = []
    for seed in seeds:
        case = draw_case(random.Random(seed).choice)
        traits.update(traits_of(case))
        try:
            check_case(case)
        except Exception as error:  # an error of any kind is what this looks for
            failures.append({"seed": seed, "error": f"{type(error).__name__}: {error}"})
    return len(seeds), traits, failures


def traits_of(case: Case) -> list[str]:
    q1, q2, k, v, lam = case.tensors
    (_, heads, queries, width), keys = q1.shape, k.shape[2]
    traits = [str(q1.dtype).removeprefix("torch."), *(name for name in case.arguments if name != "causal")]
    traits.append("causal" if case.arguments["causal"] else "not causal")
    if "scale" in traits and case.arguments["scale"] is None:
        traits.remove("scale")
    named = {
        "a key for each map": k.shape[3] != width,
        "values of another width": v.shape[3] != k.shape[3],
        "grouped noise heads": q2.shape[1] < heads,
        "query groups": k.shape[1] < q2.shape[1],
        "Tq < Tk": queries < keys,
        "Tq > Tk": queries > keys,
        "one query": queries == 1,
        "NaN and infinity where nothing looks": case.poisoned,
        "gradients": case.differentiated,
        "strided": any(not x.is_contiguous() for x in (q1, q2, k, v)),
        "lam a number": not isinstance(lam, torch.Tensor),
    }
    return traits + [name for name, holds in named.items() if holds]


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main() -> int:
    args = parse()
    stop = args.first_seed + args.cases
    chunks = [range(at, min(at + CHUNK, stop)) for at in range(args.first_seed, stop, CHUNK)]
    done, start, shown = 0, time.time(), 0.0
    traits: Counter[str] = Counter()
    failures: list[dict[str, object]] = []
    with multiprocessing.get_context("spawn").Pool(args.processes, _leave_interrupts_to_the_parent) as pool:
        try:
            for count, seen, failed in pool.imap_unordered(run_chunk, chunks):
                done += count
                traits += seen
                failures += failed
                if time.time() - shown > 2 or done == args.cases:
                    shown = time.time()
                    left = (shown - start) / done * (args.cases - done)
                    print(f"\r{done:,} of {args.cases:,}, {len(failures)} failed, {left / 60:.0f} min left  ", end="")
                    sys.stdout.flush()
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            print("\nstopped early", end="")
    report = {
        "cases": done,
        "first_seed": args.first_seed,
        "failed": len(failures),
        "failures": failures[:FAILURES_KEPT],
        "minutes": round((time.time() - start) / 60, 1),
        "cases_with": dict(traits.most_common()),
        "versions": {"diffattn": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "machine": {"processor": platform.machine(), "processes": args.processes},
    }
    print("\n" + json.dumps(report, indent=2))
    if args.out:
        args.out.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
