"""Language modelling on text at equal tokens, parameters, training FLOPs and wall time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from diffattn.data import PreparedData
from diffattn.experiments.presets import PRESETS as SIZES
from diffattn.experiments.studies.arms import Arm, TextPreset, run_arms, with_constant_rate
from diffattn.experiments.studies.budgets import AS_LARGE, four_ways
from diffattn.experiments.studies.comparison_table import comparison_table
from diffattn.experiments.studies.comparisons import judge, outcome_rows
from diffattn.experiments.studies.jobs import Laboratory
from diffattn.experiments.studies.text_measures import measure_tables
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
from diffattn.experiments.studies.variants import check_study_variants
from diffattn.report.wording import join_words, variant_name

__all__ = ["PRESETS", "TEXT", "TITLE", "LanguagePreset", "collect", "conclude", "protocol"]

TITLE = "Does differential attention model language better?"
TEXT = True
SMALL = with_constant_rate(replace(SIZES["quick"], vocab_size=2048), tokens=600_000)
_MEASURES = ("outliers", "context_rms", "quantised", "bfloat16_error", "switch_off", "dead_pairs")


@dataclass(frozen=True, kw_only=True)
class LanguagePreset(TextPreset):
    """One size of the study.

    Attributes:
        variants: softmax among them, and `wide` where V2 or gated is.
    """

    variants: tuple[str, ...] = ("softmax", "gated", "wide", "v1", "v2")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_study_variants(self.variants)
        needed = ("softmax", *(AS_LARGE[name] for name in self.variants if name in AS_LARGE))
        lacking = [name for name in needed if name not in self.variants]
        if lacking:
            raise ValueError(f"variants must hold {lacking[0]}, which others of them are compared with")

    @property
    def others(self) -> list[str]:
        """What is compared with softmax."""
        return [name for name in self.variants if name not in ("softmax", "wide")]


PRESETS = {
    preset.name: preset
    for preset in (
        LanguagePreset(
            name="default",
            summary="0.8M parameters, 600K tokens, five seeds: within an hour on two cores",
            size=SMALL,
            seeds=5,
            measures=_MEASURES,
        ),
        LanguagePreset(
            name="large",
            summary="3M parameters, 10M tokens, all variants: for a GPU",
            size=with_constant_rate(SIZES["small"], tokens=10_000_000, batch_size=32),
            seeds=5,
            measures=_MEASURES,
            variants=("softmax", "gated", "logn", "sink", "wide", "v1", "v1-no-norm", "v2"),
        ),
    )
}


def protocol(preset: LanguagePreset) -> dict[str, Any]:
    """Hypotheses, stopping rule and analysis, before anything is run."""
    stated = [pair[0] for name in preset.others for pair in four_ways(name, [], {})]
    return {
        "hypotheses": [{"name": one.name, "text": one.text} for one in stated],
        "stopping_rule": preset.stopping_rule,
        "analysis": f"The learning rate of each variant is the best of {len(preset.rates)} on the validation "
        f"text, each tried once for {preset.tuning_share:.0%} of the tokens. Differences are paired by seed; 95% t "
        f"intervals; p values corrected by Holm over all {len(stated)} hypotheses.",
    }


def collect(request: Any, laboratory: Laboratory, data: PreparedData) -> dict[str, Any]:
    """Tune, train and measure."""
    preset = request.preset
    found = run_arms(preset, {name: Arm(variant=name) for name in preset.variants}, data, request.data, laboratory)
    configs: Configs = {name: (name, {}) for name in preset.variants}
    return {**found, "step_ratios": step_ratios(preset.size, data, configs, preset.speed_rounds)}


def conclude(results: dict[str, Any]) -> dict[str, Any]:
    """Comparisons, verdict, tables and charts from what was measured."""
    runs, names = results["runs"], results["variants"]
    speeds = {name: entry["ratio_median"] for name, entry in results["step_ratios"].items()}
    others = [name for name in names if name not in ("softmax", "wide")]
    comparisons = judge([pair for name in others for pair in four_ways(name, runs, speeds)])
    add_parts(comparisons, runs)
    tables = [
        variant_table(results),
        comparison_table(comparisons),
        *measure_tables(results),
        tuning_table(results["tuning"], "Bits a byte of the validation text"),
    ]
    return {
        "comparisons": comparisons,
        "outcomes": outcome_rows(comparisons),
        "verdict": _verdict(comparisons, others),
        "tables": [table for table in tables if table],
        "charts": training_charts(runs, names),
        "failures": failures(runs),
        "limits": limits(results),
    }


def _verdict(comparisons: list[dict[str, Any]], others: list[str]) -> list[str]:
    groups = {
        "supported": "better than softmax",
        "contradicted": "worse",
        "not resolved": "not resolved",
        "not measured": "not measured",
    }
    said = []
    for name in others:
        own = [entry for entry in comparisons if entry["variant"] == name]
        parts = []
        for outcome, words in groups.items():
            at = [entry["at"].removeprefix("equal ") for entry in own if entry["outcome"] == outcome]
            parts += [f"{words} at equal {join_words(at)}"] if at else []
        said.append(f"{variant_name(name)}: {'; '.join(parts)}.")
    return [" ".join(said)]
