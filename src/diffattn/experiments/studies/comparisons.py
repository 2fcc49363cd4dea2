"""Hypotheses of a study, stated before it starts, and what the measured pairs say of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diffattn.experiments.statistics import holm, paired_difference
from diffattn.report.wording import decimals_for, finite, join_words, number, signed, variant_name

__all__ = ["Hypothesis", "judge", "outcome_rows", "p_text", "seeds_text"]

_LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """That one variant beats another in one measure, seeds paired.

    Attributes:
        name: short, of its own in the study.
        variant, baseline: what is compared.
        measure: what is measured, in words.
        unit: of the difference.
        at: what is equal, in words: "equal tokens".
        lower: whether a lower value is better.
    """

    name: str
    variant: str
    baseline: str
    measure: str
    unit: str
    at: str
    lower: bool = True

    @property
    def text(self) -> str:
        """The claim that is tested, as a sentence."""
        than = f"{'lower' if self.lower else 'higher'} {self.measure} than {variant_name(self.baseline)}"
        return f"At {self.at}, {variant_name(self.variant)} has a {than}."


Values = Mapping[int, float | None]


def judge(
    hypotheses: Sequence[tuple[Hypothesis, Values, Values]], broken: str = "diverged or was not measured"
) -> list[dict[str, Any]]:
    """Compare each hypothesis's two sets of values by seed, and correct for the number of hypotheses by Holm's method.

    Args:
        hypotheses: each with its variant's and its baseline's value by seed; None is a run that broke down.
        broken: what such a run did, in words.

    Returns:
        For each: what `paired_difference` gives, `values`, `baseline_values`, `p_holm`, `outcome` ("supported",
        "contradicted", "not resolved" or "not measured") and `sentence`.
    """
    entries = [_entry(*each) for each in hypotheses]
    for entry, corrected in zip(entries, holm([entry["p"] for entry in entries]), strict=True):
        entry["p_holm"] = corrected
        entry["outcome"] = _outcome(entry)
        entry["sentence"] = _sentence(entry, broken)
    return entries


def outcome_rows(comparisons: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a report lists: each hypothesis's name, outcome and sentence."""
    return [{"hypothesis": e["hypothesis"], "outcome": e["outcome"], "sentence": e["sentence"]} for e in comparisons]


def p_text(p: float | None) -> str:
    """A p value for a reader: "p = 0.012", "p < 0.0001"."""
    if p is None:
        return "no p value"
    return "p < 0.0001" if p < 1e-4 else f"p = {number(p, 2)}"


def seeds_text(seeds: int) -> str:
    """A number of seeds for a reader."""
    return f"{seeds} seed{'' if seeds == 1 else 's'}"


def _entry(hypothesis: Hypothesis, ours: Values, theirs: Values) -> dict[str, Any]:
    shared = [seed for seed in ours if seed in theirs]
    values, others = ([finite(side[seed]) for seed in shared] for side in (ours, theirs))
    whole = [(a, b) for a, b in zip(values, others, strict=True) if a is not None and b is not None]
    found: dict[str, Any] = dict.fromkeys(("difference_mean", "interval_low", "interval_high", "p", "detectable"))
    found |= {"confidence": 0.95, "seeds": len(shared)}
    if whole and len(whole) == len(shared):
        found = paired_difference([a for a, _ in whole], [b for _, b in whole])
    names = ("variant", "baseline", "measure", "unit", "at", "lower")
    stated = {name: getattr(hypothesis, name) for name in names}
    return {"hypothesis": hypothesis.name, **stated, "values": values, "baseline_values": others, **found}


def _outcome(entry: Mapping[str, Any]) -> str:
    if entry["difference_mean"] is None or entry["p"] is None:
        return "not measured"
    if entry["p_holm"] >= _LEVEL:
        return "not resolved"
    return "supported" if (entry["difference_mean"] < 0) == entry["lower"] else "contradicted"


def _sentence(entry: Mapping[str, Any], broken: str) -> str:
    name, baseline = variant_name(entry["variant"]), variant_name(entry["baseline"])
    pair = f"{name} minus {baseline} at {entry['at']}, {entry['measure']}"
    if entry["difference_mean"] is None:
        return f"{pair}: not compared; {_missing(entry, name, baseline, broken)}."
    decimals = decimals_for([entry["difference_mean"], entry["interval_low"] or 0, entry["interval_high"] or 0])
    mean = f"{pair}: {signed(entry['difference_mean'], decimals)} {entry['unit']}"
    if entry["p"] is None:
        return f"{mean}; one seed has no interval, so nothing follows."
    low, high = signed(entry["interval_low"], decimals), signed(entry["interval_high"], decimals)
    measured = (
        f"{mean}, 95% t interval over {entry['seeds']} paired seeds {low} to {high}, {p_text(entry['p_holm'])} by Holm"
    )
    return f"{measured}: {_conclusion(entry)}."


def _missing(entry: Mapping[str, Any], name: str, baseline: str, broken: str) -> str:
    if not entry["seeds"]:
        return "they share no seed"
    whose = [who for who, key in ((name, "values"), (baseline, "baseline_values")) if None in entry[key]]
    return f"{join_words(whose)} {broken} with at least one seed"


def _conclusion(entry: Mapping[str, Any]) -> str:
    if entry["outcome"] == "not resolved":
        if not entry["detectable"]:
            return "not resolved, no pair differs"
        if entry["p"] < _LEVEL:
            return "not resolved once corrected for the number of hypotheses"
        return f"not resolved below {number(entry['detectable'], 2)} {entry['unit']}"
    return "better" if entry["outcome"] == "supported" else "worse"
