"""Verdict, tables and limits of the needle study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from diffattn.experiments.studies.comparison_table import comparison_table
from diffattn.experiments.studies.needle_attention import attention_table, switch_off_table
from diffattn.experiments.studies.needle_values import over_seeds, rate_at, runs_of, usable, variants_of
from diffattn.experiments.studies.tuning import tuning_table
from diffattn.report.wording import (
    MISSING,
    count,
    join_words,
    number,
    variant_name,
)

__all__ = ["needle_limits", "needle_tables", "needle_verdict"]

Results = Mapping[str, Any]
Table = dict[str, Any]


def needle_verdict(comparisons: Sequence[Mapping[str, Any]], results: Results) -> list[str]:
    """What came of the hypotheses, who missed the threshold, and the order at the greatest length."""
    said = [_of_variant(name, comparisons) for name in dict.fromkeys(entry["variant"] for entry in comparisons)]
    missed = [
        f"{variant_name(variant)} ({title})"
        for condition, title in results["conditions"].items()
        for variant in variants_of(results, condition)
        if not usable(runs_of(results, condition, variant))
    ]
    if missed:
        said.append(f"Not learned with every seed, and so left out of what is said of length: {join_words(missed)}.")
    orders = [_order(condition, results) for condition in results["conditions"] if condition != "absent"]
    return [" ".join(said) or "Nothing was compared.", *(order for order in orders if order)]


def _of_variant(variant: str, comparisons: Sequence[Mapping[str, Any]]) -> str:
    own = [entry for entry in comparisons if entry["variant"] == variant]
    parts = []
    for outcome, words in _OUTCOMES.items():
        claims = [entry["hypothesis"].split(", ") for entry in own if entry["outcome"] == outcome]
        names = [f"{what} ({condition})" for _, condition, what in claims]
        parts += [f"{words}: {join_words(names)}"] if names else []
    return f"{variant_name(variant)}: {'; '.join(parts)}."


_OUTCOMES = {
    "supported": "better than softmax",
    "contradicted": "worse than softmax",
    "not resolved": "not resolved",
    "not measured": "not measured",
}


def _order(condition: str, results: Results) -> str | None:
    """All variants that learned a task, by their mean accuracy at the greatest length; no test was planned of this."""
    length = max(results["lengths"])
    means = {
        variant: found[0]
        for variant in variants_of(results, condition)
        if usable(own := runs_of(results, condition, variant))
        and (found := over_seeds([rate_at(run, length, "accuracy") for run in own]))
    }
    if len(means) < 2:
        return None
    ranked = [f"{variant_name(name)} {means[name]:.3f}" for name in sorted(means, key=lambda name: -means[name])]
    title = results["conditions"][condition]
    return f"Mean accuracy at {length:,} tokens ({title}), an order and no test: {join_words(ranked)}."


def needle_tables(comparisons: Sequence[Mapping[str, Any]], results: Results) -> list[Table]:
    """Accuracy by length, what learning cost, fabrications, attention, the switch-off test, comparisons, tuning."""
    found: list[Table | None] = []
    for condition in results["conditions"]:
        found += [_accuracy(results, condition), _costs(results, condition)]
    found += [_fabrication(results), attention_table(results), switch_off_table(results), comparison_table(comparisons)]
    for condition, tuned in results["tuning"].items():
        table = tuning_table(tuned, "Loss of other questions at the length trained on, nats")
        if table and tuned not in [results["tuning"][name] for name in _before(results, condition)]:
            title = f"{table['title']}: {results['conditions'][condition]}"
            found.append({**table, "name": f"tuning-{condition}", "title": title})
    return [table for table in found if table]


def needle_limits(results: Results) -> list[str]:
    """What the study cannot say."""
    sizes = [run["parameters"] for run in results["runs"]]
    longest = max(results["lengths"])
    return [
        f"Models of {count(min(sizes))} to {count(max(sizes))} parameters on generated facts of one token, at most "
        f"{count(longest)} of them: nothing is said of text, of larger models or of longer contexts.",
        "Models are compared at equal tokens. What each variant needed to learn the task, in steps, tokens, training "
        "FLOPs and seconds, and its parameters, is in the tables; beside V2 and gated stands the softmax of as many "
        "parameters. Seconds were taken while other runs went on beside.",
        "Intervals are over few seeds: another seed moves the accuracy at length by several hundredths.",
    ]


def _before(results: Results, condition: str) -> list[str]:
    names = list(results["tuning"])
    return names[: names.index(condition)]


def _accuracy(results: Results, condition: str) -> Table:
    rows = []
    for variant in variants_of(results, condition):
        own = runs_of(results, condition, variant)
        values = [over_seeds([rate_at(run, length, "accuracy") for run in own]) for length in results["lengths"]]
        note = "" if usable(own) else " (not learned)"
        rows.append([variant_name(variant) + note, *map(_spread, values)])
    return {
        "name": f"accuracy-{condition}",
        "title": f"Accuracy by length: {results['conditions'][condition]}",
        "head": ["Variant", *(f"{length:,} tokens" for length in results["lengths"])],
        "rows": rows,
        "note": "Mean over seeds of the share of answerable questions answered right, in brackets the lowest and "
        "highest.",
    }


def _spread(found: tuple[float, float, float] | None) -> str:
    if found is None:
        return MISSING
    mean, low, high = found
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


def _costs(results: Results, condition: str) -> Table:
    """What each variant needed to learn the task, as multiples of softmax's."""
    base = _cost(runs_of(results, condition, "softmax"))
    rows = []
    for variant in variants_of(results, condition):
        own = runs_of(results, condition, variant)
        cost = _cost(own)
        learned = sum(run["learned"] for run in own)
        ratios = [_ratio(a, b) for a, b in zip(cost, base, strict=True)]
        rows.append(
            [variant_name(variant), f"{learned} of {len(own)}", count(own[0]["parameters"]), _steps(own), *ratios]
        )
    return {
        "name": f"costs-{condition}",
        "title": f"What learning cost: {results['conditions'][condition]}",
        "head": ["Variant", "Learned", "Parameters", "Steps", "Tokens", "Training FLOPs", "Seconds"],
        "rows": rows,
        "note": "To the threshold at the last length. Tokens, FLOPs and seconds are multiples of softmax's; means "
        "over seeds that learned it.",
    }


def _cost(runs: Sequence[Mapping[str, Any]]) -> tuple[float | None, float | None, float | None]:
    """Mean tokens, FLOPs and seconds of the runs that learned the task."""
    ends = [(run["reached"][-1], run["flops_per_token"]) for run in runs if run["learned"]]
    if not ends:
        return None, None, None
    tokens = fmean(end["tokens"] for end, _ in ends)
    return tokens, fmean(end["tokens"] * flops for end, flops in ends), fmean(end["seconds"] for end, _ in ends)


def _ratio(value: float | None, base: float | None) -> str:
    return MISSING if value is None or not base else number(value / base, 3)


def _steps(runs: Sequence[Mapping[str, Any]]) -> str:
    steps = [run["reached"][-1]["steps"] for run in runs if run["learned"]]
    return f"{round(fmean(steps))} ({min(steps)} to {max(steps)})" if steps else MISSING


def _fabrication(results: Results) -> Table | None:
    if "absent" not in results["conditions"]:
        return None
    names = ("accuracy", "fabrication", "false_citation", "refusal")
    rows = []
    for variant in variants_of(results, "absent"):
        own = runs_of(results, "absent", variant)
        for length in (results["lengths"][0], results["lengths"][-1]):
            values = [over_seeds([rate_at(run, length, what) for run in own]) for what in names]
            rows.append([variant_name(variant), f"{length:,}", *map(_spread, values)])
    return {
        "name": "fabrication",
        "title": "Absent keys and near-duplicates",
        "head": [
            "Variant",
            "Tokens",
            "Accuracy where answerable",
            "Fabricated",
            "Wrong source cited",
            "Wrongly refused",
        ],
        "rows": rows,
        "note": "Fabricated: an answer where the key is absent and NONE is right. Wrong source cited: the value that a "
        "near-duplicate from another source has. Means over seeds, in brackets lowest and highest.",
    }
