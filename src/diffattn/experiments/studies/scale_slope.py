"""The slope of a gain over the size of the model, what it says, and its chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from diffattn.experiments.intervals import slope
from diffattn.experiments.studies.charts import axis, curves_chart, index_of
from diffattn.experiments.studies.comparisons import Values, p_text
from diffattn.report.wording import as_given, decimals_for, signed, variant_name

__all__ = ["gain_chart", "gain_slope"]


def gain_slope(variant: str, pairs: Sequence[tuple[int, Values, Values]]) -> dict[str, Any]:
    """The gain of every seed and size over the logarithm of parameters.

    Args:
        variant: its name.
        pairs: of each size the variant's parameters, and bits a byte by seed of the variant and of its baseline; None
            where a run broke down.

    Returns:
        `variant`, `hypothesis`, `outcome` and `sentence`; where two sizes or more ran through also `points`, each of
        parameters and gain, and what `slope` gives.
    """
    gains = [(size, _gain(ours[seed], theirs[seed])) for size, ours, theirs in pairs for seed in ours]
    points = [[size, gain] for size, gain in gains if gain is not None]
    name = f"slope of {variant}"
    if len({parameters for parameters, _ in points}) < 2:
        return {
            "variant": variant,
            "hypothesis": name,
            "outcome": "not measured",
            "sentence": "Too few sizes ran through.",
        }
    found = slope([math.log10(parameters) for parameters, _ in points], [gain for _, gain in points])
    return {"variant": variant, "hypothesis": name, **found, "points": points, **_said(variant, found, len(gains))}


def _gain(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else theirs - ours


def _said(variant: str, found: dict[str, Any], pairs: int) -> dict[str, str]:
    rise, low, high = found["slope"], found["interval_low"], found["interval_high"]
    start = f"The gain of {variant_name(variant)} over a softmax of as many parameters"
    if low is None:
        return {"outcome": "not measured", "sentence": f"{start}: too few runs for an interval of its slope."}
    decimals = decimals_for([rise, low, high])
    interval = f"{signed(low, decimals)} to {signed(high, decimals)}"
    measured = f"changes by {signed(rise, decimals)} bits a byte for ten times the parameters, 95% interval {interval}"
    lost = pairs - found["points"]
    broken = f", without {lost} of {pairs} pairs, of which a run diverged" if lost else ""
    outcome = "supported" if low > 0 else "contradicted" if high < 0 else "not resolved"
    words = {
        "supported": "it grows with the model in this range",
        "contradicted": "it shrinks with the model in this range",
        "not resolved": f"whether it grows is not resolved below {as_given(round(max(abs(low), abs(high)), decimals))}",
    }
    return {"outcome": outcome, "sentence": f"{start} {measured}, {p_text(found['p'])}{broken}: {words[outcome]}."}


def gain_chart(slopes: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Gains and their lines, as `curves_chart` gives it."""
    curves = []
    for one in slopes:
        if "points" not in one:
            continue
        ends = [min(x for x, _ in one["points"]), max(x for x, _ in one["points"])]
        line = [[x, one["intercept"] + one["slope"] * math.log10(x)] for x in ends]
        points = [[x, gain, None, None] for x, gain in one["points"]]
        name = variant_name(one["variant"])
        curves.append({"name": name, "variant": index_of(one["variant"], ()), "points": points, "line": line})
    return curves_chart(
        "gain",
        "Gain over the softmax of as many parameters",
        "A point is one seed. Above 0: better. The line is the least-squares fit.",
        axis("parameters", log=True),
        axis("bits a byte", level=0.0),
        curves,
    )
