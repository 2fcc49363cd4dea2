"""Whether the gain of differential attention grows with the model: three sizes, and the gain's slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from diffattn.data import PreparedData
from diffattn.experiments.presets import Preset
from diffattn.experiments.studies.arms import Arm, TextPreset, run_arms, with_constant_rate
from diffattn.experiments.studies.budgets import AS_LARGE, final_bits, named
from diffattn.experiments.studies.comparison_table import comparison_table
from diffattn.experiments.studies.comparisons import Hypothesis, Values, judge, outcome_rows
from diffattn.experiments.studies.jobs import Laboratory
from diffattn.experiments.studies.language import SMALL
from diffattn.experiments.studies.scale_slope import gain_chart, gain_slope
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
from diffattn.report.wording import variant_name

__all__ = ["PRESETS", "TEXT", "TITLE", "ScalePreset", "collect", "conclude", "protocol"]

TITLE = "Does the gain of differential attention grow with the model?"
TEXT = True


@dataclass(frozen=True, kw_only=True)
class ScalePreset(TextPreset):
    """One size of the study: `size` is the largest model, `smaller` the others, smallest first.

    Attributes:
        smaller: with the vocabulary of `size`.
        variants: compared at each size with the softmax of as many parameters: `wide`, or softmax itself.
    """

    smaller: tuple[Preset, ...]
    variants: tuple[str, ...] = ("v2",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_study_variants(self.variants)
        if {"softmax", "wide"} & set(self.variants):
            raise ValueError("variants must not hold softmax or wide, which are what the others are compared with")
        if len({size.name for size in self.sizes}) < 2 or {size.vocab_size for size in self.sizes} != {
            self.size.vocab_size
        }:
            raise ValueError("smaller must hold one size or more, of other names and the same vocabulary")

    @property
    def sizes(self) -> tuple[Preset, ...]:
        """All, smallest first."""
        return (*self.smaller, self.size)


def _sized(name: str, width: int, layers: int, heads: int, **changes: Any) -> Preset:
    body: dict[str, Any] = {
        "hidden_size": width,
        "layers": layers,
        "heads": heads,
        "kv_heads": 2,
        "intermediate_size": 2 * width,
    }
    return with_constant_rate(replace(SMALL, name=name, summary="", **body), 10, **changes)


PRESETS = {
    preset.name: preset
    for preset in (
        ScalePreset(
            name="default",
            summary="widths 64, 128 and 192, 120K tokens, three seeds: within an hour on two cores",
            smaller=(_sized("width 64", 64, 2, 4, tokens=120_000), _sized("width 128", 128, 4, 4, tokens=120_000)),
            size=_sized("width 192", 192, 6, 6, tokens=120_000),
            validation_tokens=8192,
        ),
        ScalePreset(
            name="large",
            summary="widths 256, 512 and 1024, 100M tokens, five seeds: for a GPU",
            smaller=(
                _sized("width 256", 256, 6, 8, tokens=100_000_000, batch_size=64),
                _sized("width 512", 512, 12, 8, tokens=100_000_000, batch_size=64),
            ),
            size=_sized("width 1024", 1024, 16, 16, tokens=100_000_000, batch_size=64),
            seeds=5,
            rates=(3e-4, 1e-3, 3e-3),
        ),
    )
}


def protocol(preset: ScalePreset) -> dict[str, Any]:
    """Hypotheses, stopping rule and analysis, before anything is run."""
    names = [size.name for size in preset.sizes]
    stated = [one for variant in preset.variants for one in _hypotheses(variant, names)]
    slopes = [
        {
            "name": f"slope of {variant}",
            "text": f"The gain of {variant_name(variant)} grows with the number of parameters.",
        }
        for variant in preset.variants
    ]
    return {
        "hypotheses": [*({"name": one.name, "text": one.text} for one in stated), *slopes],
        "stopping_rule": preset.stopping_rule,
        "analysis": f"The learning rate of each variant at each size is the best of {len(preset.rates)} on the "
        f"validation text, each tried once for {preset.tuning_share:.0%} of the tokens. The gain is the bits a byte "
        "of the softmax with as many parameters minus those of the variant with the same seed; its slope is that of "
        "a least-squares line over the logarithm (base 10) of parameters, with a 95% t interval over all pairs. p "
        "values of the sizes corrected by Holm; the slope has its own.",
    }


def collect(request: Any, laboratory: Laboratory, data: PreparedData) -> dict[str, Any]:
    """Tune, train and measure."""
    preset = request.preset
    arms = {
        _arm(variant, size.name): Arm(variant=variant, size=size)
        for size in preset.sizes
        for variant in _compared(preset.variants)
    }
    found = run_arms(preset, arms, data, request.data, laboratory)
    ratios: dict[str, Any] = {}
    for size in preset.sizes:
        configs: Configs = {_arm(name, size.name): (name, {}) for name in _compared(preset.variants)}
        ratios |= step_ratios(size, data, configs, preset.speed_rounds)
    return {
        **found,
        "sizes": [size.name for size in preset.sizes],
        "compared": list(preset.variants),
        "step_ratios": ratios,
    }


def conclude(results: dict[str, Any]) -> dict[str, Any]:
    """Comparisons, slopes, verdict, tables and charts from what was measured."""
    runs, sizes = results["runs"], results["sizes"]
    stated = [one for variant in results["compared"] for one in _hypotheses(variant, sizes)]
    values = {name: {run["seed"]: final_bits(run) for run in named(runs, name)} for name in results["variants"]}
    comparisons = judge([(one, values[one.variant], values[one.baseline]) for one in stated])
    add_parts(comparisons, runs)
    slopes = [gain_slope(variant, _pairs(variant, results, values)) for variant in results["compared"]]
    tables = [
        variant_table(results, "that of the first softmax of the same size"),
        comparison_table(comparisons),
        tuning_table(results["tuning"], "Bits a byte of the validation text"),
    ]
    charts = [gain_chart(slopes), *training_charts(runs, results["variants"])]
    return {
        "comparisons": comparisons,
        "slopes": slopes,
        "outcomes": [*outcome_rows(comparisons), *({key: one[key] for key in _OUTCOME} for one in slopes)],
        "verdict": [one["sentence"] for one in slopes],
        "tables": [table for table in tables if table],
        "charts": [chart for chart in charts if chart],
        "failures": failures(runs),
        "limits": [
            *limits(results),
            "Both of a pair have the same parameters and tokens and, to a few hundredths, the same FLOPs; step "
            "times are in the table. All sizes see the same number of tokens, so that larger ones are trained less, "
            "for their size.",
        ],
    }


_OUTCOME = ("hypothesis", "outcome", "sentence")


def _baseline(variant: str) -> str:
    return AS_LARGE.get(variant, "softmax")


def _compared(variants: Sequence[str]) -> list[str]:
    """The softmaxes that are needed, then the variants."""
    return list(dict.fromkeys([*map(_baseline, variants), *variants]))


def _pairs(variant: str, results: dict[str, Any], values: dict[str, Any]) -> list[tuple[int, Values, Values]]:
    found = []
    for size in results["sizes"]:
        ours, theirs = _arm(variant, size), _arm(_baseline(variant), size)
        found.append((named(results["runs"], ours)[0]["parameters"], values[ours], values[theirs]))
    return found


def _arm(variant: str, size: str) -> str:
    return f"{variant_name(variant)}, {size}"


def _hypotheses(variant: str, sizes: Sequence[str]) -> list[Hypothesis]:
    return [
        Hypothesis(
            name=f"{variant} at {size}",
            variant=_arm(variant, size),
            baseline=_arm(_baseline(variant), size),
            measure="test loss",
            unit="bits a byte",
            at="equal tokens and parameters",
        )
        for size in sizes
    ]
