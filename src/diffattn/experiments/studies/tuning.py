"""The learning rate of each variant, chosen on an equal budget before the runs that count."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diffattn.experiments.studies.jobs import Job, Laboratory
from diffattn.report.wording import as_given, finite, number, variant_name

__all__ = ["TUNING_SEED", "check_rates", "chosen_rates", "tuning_table"]

#: Of the tuning runs; no run that counts has it.
TUNING_SEED = 1000


def check_rates(rates: Sequence[float]) -> None:
    """Raise a ValueError for learning rates that are none, not above 0, not finite, or not all different."""
    if not rates or len(set(rates)) < len(rates) or not all(0 < rate < math.inf for rate in rates):
        given = ", ".join(f"{rate:g}" for rate in rates)
        raise ValueError(f"rates must be one or more different numbers above 0, got {given or 'none'}")


def chosen_rates(
    laboratory: Laboratory,
    names: Sequence[str],
    rates: Sequence[float],
    job: Callable[[str, float], Job],
    score: Callable[[Mapping[str, Any]], float | None],
) -> dict[str, dict[str, Any]]:
    """For each name the rate with the lowest score.

    Args:
        laboratory: runs the tuning.
        names: of what is tuned, such as variants.
        rates: all tried for each; a single one is taken as it is, and nothing is run.
        job: the tuning run of a name at a rate.
        score: of a run's result, lower is better; None for a run that broke down.

    Returns:
        By name: `rate`, and `tried`, a list of `{"rate", "score"}`. Where every rate broke down the lowest is taken.
    """
    if len(rates) == 1:
        return {name: {"rate": rates[0], "tried": []} for name in names}
    jobs = {(name, rate): job(name, rate) for name in names for rate in rates}
    results = laboratory.run(list(jobs.values()), "tuning the learning rate")
    chosen = {}
    for name in names:
        tried = [{"rate": rate, "score": finite(score(results[jobs[name, rate].id]))} for rate in rates]
        whole = [(entry["score"], entry["rate"]) for entry in tried if entry["score"] is not None]
        chosen[name] = {"rate": min(whole, default=(None, min(rates)))[1], "tried": tried}
    return chosen


def tuning_table(chosen: Mapping[str, Mapping[str, Any]], what: str) -> dict[str, Any] | None:
    """The table of a report; None where nothing was tuned. `what` names the score."""
    tried: list[dict[str, Any]] = next((entry["tried"] for entry in chosen.values()), [])
    if not tried:
        return None
    rows = [
        [variant_name(name), *(_score(one["score"]) for one in entry["tried"]), as_given(entry["rate"])]
        for name, entry in chosen.items()
    ]
    return {
        "name": "tuning",
        "title": "Learning rates tried",
        "head": ["Variant", *(f"at {as_given(one['rate'])}" for one in tried), "Chosen"],
        "rows": rows,
        "note": f"{what}, lower is better; one run each with a seed that no other run has, the same for all variants.",
    }


def _score(value: float | None) -> str:
    return "broke down" if value is None else number(value, 4)
