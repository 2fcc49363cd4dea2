"""Every variant against the baseline, paired by seed."""

from __future__ import annotations

from typing import Any

from diffattn.experiments.statistics import paired_difference
from diffattn.report.wording import finite

__all__ = ["MEASURES", "by_seed", "compare_runs", "outcome"]

Results = dict[str, Any]

#: What is compared, with its unit; lower is better for each. The verdict rests on the first alone.
MEASURES = {
    "test.bits_per_byte": "bits a byte",
    "test.perplexity_token": "perplexity a token",
    "validation.perplexity_token": "perplexity a token",
}


def compare_runs(results: Results) -> list[dict[str, Any]]:
    """Each variant against the baseline in each of `MEASURES`, paired by seed: the results' `comparisons`.

    Only seeds that both have run are paired. Where a value of a pair is not finite (a run that broke down),
    or where no seed is shared, nothing is computed: difference, interval and detectable are None. Without the
    baseline among the variants there is nothing to compare.
    """
    baseline = results.get("baseline")
    variants = results.get("variants") or ()
    others = [variant for variant in variants if variant != baseline] if baseline in variants else []
    return [_compare(results, variant, str(baseline), measure) for variant in others for measure in MEASURES]


def outcome(entry: dict[str, Any]) -> str:
    """How a comparison came out: "better", "worse", "open" (not told apart) or "unknown" (not compared)."""
    low, high = entry["interval_low"], entry["interval_high"]
    if entry["difference_mean"] is None:
        return "unknown"
    if low is None or low <= 0 <= high:
        return "open"
    return "worse" if low > 0 else "better"


def by_seed(results: Results, variant: str, measure: str) -> dict[Any, float | None]:
    """The measure ("test.bits_per_byte") of each of the variant's runs by seed; None where it is not finite."""
    split, key = measure.split(".")
    runs = [run for run in results.get("runs") or () if run.get("variant") == variant]
    return {run.get("seed"): finite(((run.get("evaluation") or {}).get(split) or {}).get(key)) for run in runs}


def _compare(results: Results, variant: str, baseline: str, measure: str) -> dict[str, Any]:
    ours, theirs = by_seed(results, variant, measure), by_seed(results, baseline, measure)
    shared = [seed for seed in ours if seed in theirs]
    values, baseline_values = [ours[seed] for seed in shared], [theirs[seed] for seed in shared]
    usable = [value for value in values if value is not None]
    baseline_usable = [value for value in baseline_values if value is not None]
    statistics: dict[str, Any] = dict.fromkeys(("difference_mean", "interval_low", "interval_high", "p", "detectable"))
    statistics |= {"confidence": 0.95, "seeds": len(shared)}
    if shared and len(usable) == len(baseline_usable) == len(shared):
        statistics = paired_difference(usable, baseline_usable)
    return {
        "variant": variant,
        "baseline": baseline,
        "measure": measure,
        "unit": MEASURES[measure],
        "values": values,
        "baseline_values": baseline_values,
        **statistics,
    }
