"""Comparisons at equal tokens, parameters, training FLOPs and wall time, from the same runs.

Training has a constant rate after its warm-up, so that a curve's value at a number of tokens is what a run of that many
tokens would have given; at an equal budget the dearer variant is read earlier on its curve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from diffattn.experiments.studies.comparisons import Hypothesis, Values
from diffattn.report.wording import finite

__all__ = ["AS_LARGE", "curve_at", "final_bits", "four_ways", "named"]

#: Of each variant with more parameters than softmax, the softmax that has as many.
AS_LARGE = {"gated": "wide", "v2": "wide"}
_BUDGETS = ("tokens", "parameters", "training FLOPs", "wall time")

Run = Mapping[str, Any]
Pair = tuple[Hypothesis, Values, Values]


def four_ways(variant: str, runs: Sequence[Run], speeds: Mapping[str, float]) -> list[Pair]:
    """A variant against softmax at each of the four equal budgets, for `judge`.

    Args:
        variant: its name.
        runs: all runs of the study, results of `text_job.run`.
        speeds: seconds of a training step of each variant over softmax's.

    At equal tokens and parameters the test text is measured, at equal FLOPs and wall time the validation text along the
    curve. At equal parameters the baseline is the wider softmax where the variant has more than softmax.
    """
    return [_at(budget, variant, runs, speeds) for budget in _BUDGETS]


def _at(at: str, variant: str, runs: Sequence[Run], speeds: Mapping[str, float]) -> Pair:
    baseline = AS_LARGE.get(variant, "softmax") if at == "parameters" else "softmax"
    ours, theirs = named(runs, variant), named(runs, baseline)
    split = "test" if at in ("tokens", "parameters") else "validation"
    stated = Hypothesis(
        name=f"{variant} at equal {at}",
        variant=variant,
        baseline=baseline,
        measure=f"{split} loss",
        unit="bits a byte",
        at=f"equal {at}",
    )
    if split == "test":
        return stated, _each(ours, final_bits), _each(theirs, final_bits)
    cost = (lambda run: run["flops_per_token"]) if at == "training FLOPs" else (lambda run: speeds.get(run["variant"]))
    return stated, *_at_equal_cost(ours, theirs, cost)


def named(runs: Sequence[Run], variant: str) -> list[Run]:
    """The runs of one variant."""
    return [run for run in runs if run["variant"] == variant]


def final_bits(run: Run) -> float | None:
    """Bits a byte of the test text; None where the run diverged."""
    return finite((run["evaluation"].get("test") or {}).get("bits_per_byte"))


def curve_at(run: Run, tokens: float) -> float | None:
    """The watched validation number at that many tokens, linear between entries in the logarithm of tokens."""
    watched = (run["curves"].get("watched") or {}).get("validation")
    if run["diverged_at"] is not None or not watched or not all(finite(value) is not None for value in watched):
        return None
    return float(np.interp(np.log(tokens), np.log(run["curves"]["tokens"]), watched))


def _each(runs: Sequence[Run], value: Callable[[Run], float | None]) -> Values:
    return {run["seed"]: value(run) for run in runs}


def _at_equal_cost(
    ours: Sequence[Run], theirs: Sequence[Run], cost: Callable[[Run], float | None]
) -> tuple[Values, Values]:
    """Values where the cheaper of the two has seen all its tokens and the dearer has spent no more."""
    prices = [finite(cost(runs[0])) if runs else None for runs in (ours, theirs)]
    if None in prices:
        return {run["seed"]: None for run in ours}, {run["seed"]: None for run in theirs}
    one, other = (price for price in prices if price is not None)
    budget = min(one, other) * min(run["tokens"] for run in [*ours, *theirs])
    return _each(ours, partial(curve_at, tokens=budget / one)), _each(theirs, partial(curve_at, tokens=budget / other))
