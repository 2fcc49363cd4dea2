"""What the needle study claims before it starts, and the numbers that decide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffattn.experiments.studies.comparisons import Hypothesis
from diffattn.experiments.studies.needle_conditions import CONDITIONS
from diffattn.experiments.studies.needle_values import rate_at, usable

__all__ = ["needle_hypotheses", "needle_values"]


def needle_hypotheses(
    variants: Sequence[str], conditions: Mapping[str, str] | Sequence[str], lengths: Sequence[int]
) -> list[tuple[Hypothesis, tuple[str, str, int]]]:
    """Of V1 and V2 against softmax: each with its condition, rate and length."""
    found = []
    for variant in ("v1", "v2"):
        for condition in conditions:
            asked = ("fabrication", "false_citation") if condition == "absent" else ("accuracy",)
            known = variant in CONDITIONS[condition].of(tuple(variants))
            for what in asked if known else ():
                length = lengths[0] if condition == "absent" else lengths[-1]
                stated = Hypothesis(
                    name=f"{variant}, {condition}, {what.replace('_', ' ')}",
                    variant=variant,
                    baseline="softmax",
                    measure=f"{_WORDS[what]} at {length:,} tokens ({CONDITIONS[condition].title})",
                    unit="of the questions",
                    at="equal tokens",
                    lower=what != "accuracy",
                )
                found.append((stated, (condition, what, length)))
    return found


_WORDS = {
    "accuracy": "accuracy",
    "fabrication": "fabrication of absent answers",
    "false_citation": "citation of a near-duplicate",
}


def needle_values(runs: Sequence[Any], variant: str, condition: str, what: str, length: int) -> dict[int, float | None]:
    """By seed; None for all seeds where the variant missed the threshold with one."""
    own = [run for run in runs if run["variant"] == variant and run["condition"] == condition]
    counted = usable(own)
    return {run["seed"]: rate_at(run, length, what) if counted else None for run in own}
