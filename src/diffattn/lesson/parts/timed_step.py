"""Part 9, continued: a decode step timed on this machine, in plain Python."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from diffattn.lesson.attention import Heads, diff_attention, softmax_attention, subtract
from diffattn.lesson.pages.part import Cell, Column, Step, Table
from diffattn.lesson.parts.counting import ordinary
from diffattn.lesson.parts.examples import random_heads
from diffattn.lesson.parts.grouped import interleaved
from diffattn.planning.attention import variant

__all__ = ["a_measured_step", "measured_steps", "verdict"]

TOKENS, HEADS, KV_HEADS, WIDTH, ROUNDS = 512, 8, 2, 32, 41


def a_measured_step() -> Step:
    small = ordinary(KV_HEADS, heads=HEADS, width=HEADS * WIDTH)
    second, times = variant(small, "v2"), measured_steps()
    rows: list[tuple[Cell, ...]] = []
    found: list[str] = []
    for name, combined in (("V2, two products", False), ("V2, maps combined first", True)):
        ratios = [v2 / base for v2, base in zip(times[name], times["baseline"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        predicted = second.pair_flops(combined=combined) / small.pair_flops()
        rows.append((name, predicted, middle, low, high))
        found.append(verdict(name, predicted, low, high))
    speed = TOKENS * small.pair_flops() / statistics.median(times["baseline"])
    return Step(
        heading="A step measured on this machine",
        text=(
            f"One query token, {HEADS} heads of {WIDTH} on {KV_HEADS} key/value heads, {TOKENS} cached tokens, in "
            f"plain Python; {ROUNDS} rounds in which baseline and V2 take turns, the ratio taken in each. The "
            f"baseline's step took {1e3 * statistics.median(times['baseline']):.0f} ms: {speed / 1e6:.0f} MFLOP/s.",
            "Plain Python spends its time on arithmetic: memory could feed it far faster. So the prediction is the "
            "ratio of FLOPs, and V2 is NOT free here. A machine bound by memory would take the same time for both, "
            "since both read the same bytes. With torch and the kernels of a real step, beside the roofline of the "
            "machine at hand: `python -m benchmarks.decode`.",
            "FLOPs count the products alone. Each map also costs an exponential and a division for each score, and "
            "each pair a subtraction. And there are fixed costs: what a step pays once, however many maps it has, and "
            "what each call pays, however long its lists are.",
        ),
        table=Table(
            (
                Column("step over the baseline's"),
                Column("by FLOPs", "derived", ".2f"),
                Column("median", "measured", ".2f"),
                Column("lower quartile", "measured", ".2f"),
                Column("upper quartile", "measured", ".2f"),
            ),
            rows,
        ),
        shows=f"Bound by arithmetic, V2's step takes longer. {' '.join(found)}",
    )


def verdict(name: str, predicted: float, low: float, high: float) -> str:
    """Whether the prediction lies within the measured quartiles, in words."""
    measured = (
        f"{name}: FLOPs say {predicted:.2f} times, and the middle half of the rounds took {low:.2f} to {high:.2f}"
    )
    if low <= predicted <= high:
        return f"{measured}, which holds the prediction."
    if predicted < low:
        return f"{measured}: more than predicted, as a map costs more than its products."
    return f"{measured}: less than predicted, as fixed costs do not grow with the maps."


def measured_steps() -> dict[str, list[float]]:
    """Seconds of each step in each round, taken in turn so that what disturbs one disturbs all."""
    rng = random.Random(9)
    q1, q2 = (random_heads(rng, HEADS, 1, WIDTH) for _ in range(2))
    k, v = (random_heads(rng, KV_HEADS, TOKENS, WIDTH) for _ in range(2))
    steps: dict[str, Callable[[], Heads]] = {
        "baseline": lambda: softmax_attention(q1, k, v),
        "V2, two products": lambda: _subtracted(softmax_attention(interleaved(q1, q2), k, v)),
        "V2, maps combined first": lambda: diff_attention(q1, q2, k, v, 0.5),
    }
    rounds = [{name: _seconds(step) for name, step in steps.items()} for _ in range(ROUNDS + 1)][1:]
    return {name: [seconds[name] for seconds in rounds] for name in steps}


def _subtracted(maps: Heads) -> Heads:
    pairs = zip(maps[0::2], maps[1::2], strict=True)
    return [subtract(first, second, [0.5] * len(first)) for first, second in pairs]


def _seconds(step: Callable[[], Heads]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start
