"""How lambda is made: fixed, a layer's, a head's or a token's own, and from where it starts."""

from __future__ import annotations

from typing import Any

from diffattn.data import PreparedData
from diffattn.experiments.presets import PRESETS as SIZES
from diffattn.experiments.studies.arms import Arm, TextPreset, run_arms, with_constant_rate
from diffattn.experiments.studies.budgets import final_bits, named
from diffattn.experiments.studies.comparison_table import comparison_table
from diffattn.experiments.studies.comparisons import Hypothesis, judge, outcome_rows
from diffattn.experiments.studies.jobs import Laboratory
from diffattn.experiments.studies.language import SMALL
from diffattn.experiments.studies.text_study import (
    Configs,
    add_parts,
    failures,
    limits,
    step_ratios,
    training_charts,
    variant_table,
)
from diffattn.experiments.studies.tuning import tuning_table
from diffattn.report.wording import join_words

__all__ = ["ARMS", "PRESETS", "TEXT", "TITLE", "collect", "conclude", "protocol"]

TITLE = "How should lambda be made?"
TEXT = True


def _v1(granularity: str, init: str | float) -> Arm:
    return Arm(variant="v1", fields={"lambda_granularity": granularity, "lambda_init": init}, tuned_as="V1")


def _v2(granularity: str, init: float | None = None) -> Arm:
    fields: dict[str, Any] = {"lambda_granularity": granularity}
    return Arm(variant="v2", fields=fields if init is None else {**fields, "lambda_init": init}, tuned_as="V2")


#: What is trained; the first of each version is its authors' own way, which the others are compared with.
ARMS = {
    "V1 layer, schedule": _v1("layer", "schedule"),
    "V1 layer, 0.2": _v1("layer", 0.2),
    "V1 layer, 0.5": _v1("layer", 0.5),
    "V1 layer, 0.8": _v1("layer", 0.8),
    "V1 fixed, 0.8": _v1("fixed", 0.8),
    "V1 head, 0.8": _v1("head", 0.8),
    "V1 token, 0.8": _v1("token", 0.8),
    "V2 token": _v2("token"),
    "V2 head": _v2("head"),
    "V2 layer": _v2("layer"),
    "V2 fixed, 0.5": _v2("fixed", 0.5),
}
_OWN = {"V1": "V1 layer, schedule", "V2": "V2 token"}

PRESETS = {
    preset.name: preset
    for preset in (
        TextPreset(
            name="default",
            summary="0.8M parameters, 60K tokens, 11 ways, three seeds: within an hour on two cores",
            size=with_constant_rate(SMALL, 10, tokens=60_000),
            validation_tokens=8192,
            tuning_share=0.5,
        ),
        TextPreset(
            name="large",
            summary="3M parameters, 10M tokens, five seeds: for a GPU",
            size=with_constant_rate(SIZES["small"], tokens=10_000_000, batch_size=32),
            seeds=5,
        ),
    )
}


def protocol(preset: TextPreset) -> dict[str, Any]:
    """Hypotheses, stopping rule and analysis, before anything is run."""
    stated = _hypotheses()
    return {
        "hypotheses": [{"name": one.name, "text": one.text} for one in stated],
        "stopping_rule": preset.stopping_rule,
        "analysis": f"One learning rate a version, the best of {len(preset.rates)} for its authors' own lambda on the "
        f"validation text, each tried once for {preset.tuning_share:.0%} of the tokens: this favours that lambda. "
        f"Differences are paired by seed; 95% t intervals; p values corrected by Holm over all {len(stated)} "
        "hypotheses.",
    }


def collect(request: Any, laboratory: Laboratory, data: PreparedData) -> dict[str, Any]:
    """Tune, train and measure."""
    preset = request.preset
    found = run_arms(preset, ARMS, data, request.data, laboratory)
    configs: Configs = {"softmax": ("softmax", {}), **{name: (arm.variant, arm.fields) for name, arm in ARMS.items()}}
    return {**found, "step_ratios": step_ratios(preset.size, data, configs, preset.speed_rounds)}


def conclude(results: dict[str, Any]) -> dict[str, Any]:
    """Comparisons, verdict, tables and charts from what was measured."""
    runs = results["runs"]
    values = {name: {run["seed"]: final_bits(run) for run in named(runs, name)} for name in results["variants"]}
    comparisons = judge([(one, values[one.variant], values[one.baseline]) for one in _hypotheses()])
    add_parts(comparisons, runs)
    tables = [
        variant_table(results),
        comparison_table(comparisons),
        tuning_table(results["tuning"], "Bits a byte of the validation text"),
    ]
    charts = [
        chart
        for version in _OWN
        for chart in training_charts(runs, [name for name in results["variants"] if name.startswith(version)], version)
    ]
    return {
        "comparisons": comparisons,
        "outcomes": outcome_rows(comparisons),
        "verdict": [_verdict(comparisons)],
        "tables": [table for table in tables if table],
        "charts": charts,
        "failures": failures(runs),
        "limits": [
            *limits(results),
            "Arms of a version have the same parameters but for those of lambda itself, the same tokens and nearly "
            "the same FLOPs and step time, both in the table: equal tokens, parameters, FLOPs and time are one "
            "comparison here.",
        ],
    }


def _hypotheses() -> list[Hypothesis]:
    return [
        Hypothesis(
            name=f"{name} against {own}",
            variant=name,
            baseline=own,
            measure="test loss",
            unit="bits a byte",
            at="equal tokens",
        )
        for own in _OWN.values()
        for name in ARMS
        if name.startswith(own[:2]) and name != own
    ]


_WORDS = {
    "supported": "better",
    "contradicted": "worse",
    "not resolved": "not told apart",
    "not measured": "not measured",
}


def _verdict(comparisons: list[dict[str, Any]]) -> str:
    said = []
    for version, own in _OWN.items():
        of_version = [entry for entry in comparisons if entry["baseline"] == own]
        parts = []
        for outcome, words in _WORDS.items():
            found = [entry["variant"] for entry in of_version if entry["outcome"] == outcome]
            names = [name.removeprefix(f"{version} ").replace(",", "") for name in found]
            parts += [f"{words}: {join_words(names)}"] if names else []
        said.append(f"Beside {own}, {'; '.join(parts)}.")
    return " ".join(said)
