"""Which attention trains at which learning rate: loss, spikes, lambda, the context's size, bfloat16's error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from diffattn.data import PreparedData
from diffattn.experiments.presets import PRESETS as SIZES
from diffattn.experiments.presets import Preset
from diffattn.experiments.studies.jobs import Job, Laboratory
from diffattn.experiments.studies.stability_events import describe_run, highest_sound_rate, stability_outcomes
from diffattn.experiments.studies.stability_report import stability_charts, stability_tables
from diffattn.experiments.studies.text_job import WORK, arguments_of
from diffattn.experiments.studies.text_study import failures
from diffattn.experiments.studies.tuning import check_rates
from diffattn.experiments.studies.variants import check_study_variants
from diffattn.report.wording import as_given, count, join_words, variant_name

__all__ = ["PRESETS", "TEXT", "TITLE", "StabilityPreset", "collect", "conclude", "protocol"]

TITLE = "Which attention trains at which learning rate?"
TEXT = True


@dataclass(frozen=True, kw_only=True)
class StabilityPreset:
    """One size of the study.

    Attributes:
        name, summary: for whoever chooses.
        size: baseline model and training; its steps are logged every fifth.
        variants: of `STUDY_VARIANTS`.
        rates: learning rates, constant after a warm-up of a twentieth.
        clips: gradient norms to clip at; 0 for no clipping.
        seeds: runs of each.
    """

    name: str
    summary: str
    size: Preset
    variants: tuple[str, ...] = ("softmax", "gated", "v1", "v1-no-norm", "v2")
    rates: tuple[float, ...] = (1e-3, 1e-2, 3e-2, 1e-1)
    clips: tuple[float, ...] = (1.0, 0.0)
    seeds: int = 1

    def __post_init__(self) -> None:
        check_study_variants(self.variants)
        check_rates(self.rates)
        if self.seeds < 1 or not self.clips:
            raise ValueError("seeds must be at least 1, and clips hold at least one")

    @property
    def largest(self) -> Preset:
        """What the corpus is prepared for."""
        return self.size


def _tiny(steps: int, context: int, batch: int) -> Preset:
    size = replace(SIZES["quick"], name="tiny", hidden_size=64, layers=4, heads=4, kv_heads=2, intermediate_size=128)
    settings = replace(
        size.settings,
        tokens=steps * context * batch,
        context=context,
        batch_size=batch,
        min_learning_rate_ratio=1.0,
        log_every=5,
    )
    return replace(size, settings=settings, vocab_size=1024)


PRESETS = {
    preset.name: preset
    for preset in (
        StabilityPreset(
            name="default",
            summary="0.2M parameters, 1,000 steps, four rates, with and without clipping: within an hour on two cores",
            size=_tiny(1000, 128, 2),
        ),
        StabilityPreset(
            name="large",
            summary="3M parameters, 10,000 steps, three seeds: for a GPU",
            size=replace(
                SIZES["small"],
                settings=replace(
                    SIZES["small"].settings,
                    tokens=10_000 * 256 * 32,
                    batch_size=32,
                    min_learning_rate_ratio=1.0,
                    log_every=5,
                ),
            ),
            seeds=3,
        ),
    )
}


def protocol(preset: StabilityPreset) -> dict[str, Any]:
    """Hypotheses, stopping rule and analysis, before anything is run."""
    return {
        "hypotheses": stability_outcomes([], preset.rates),
        "stopping_rule": f"{preset.seeds} run{'s' if preset.seeds > 1 else ''} of "
        f"{count(preset.size.settings.steps)} steps of each variant at each rate and clipping, fixed beforehand; a "
        "run whose loss is not finite goes on to its end and counts as diverged.",
        "analysis": "Events, counted a run: diverged; a spike, that is a loss, mean of five steps, half a nat above "
        "the lowest before it, counted anew after it has come back to within a quarter; lambda above 10. A rate is "
        "sound where no run has an event. With so few runs nothing is said of chances: events are reported as they "
        "were.",
    }


def collect(request: Any, laboratory: Laboratory, data: PreparedData) -> dict[str, Any]:
    """Train every variant at every rate, with and without clipping."""
    preset = request.preset
    watch = {"context_rms": True}
    jobs = [
        Job(
            id=f"{name}-rate{rate:g}-clip{clip:g}-seed{seed}",
            work=WORK,
            arguments=arguments_of(
                name,
                preset.size,
                data,
                request.data,
                seed=seed,
                watch=watch,
                splits={"validation": preset.size.evaluation_tokens},
                measures=["bfloat16_error", "outliers", "gradient_norms"],
                learning_rate=rate,
                max_grad_norm=clip,
            ),
        )
        for seed in range(preset.seeds)
        for rate in preset.rates
        for clip in preset.clips
        for name in preset.variants
    ]
    runs = laboratory.run(jobs, "training")
    return {
        "seeds": list(range(preset.seeds)),
        "variants": list(preset.variants),
        "rates": list(preset.rates),
        "clips": list(preset.clips),
        "runs": list(runs.values()),
        "settings": preset.size.settings.to_dict(),
    }


def conclude(results: dict[str, Any]) -> dict[str, Any]:
    """Events, verdict, tables and charts from what was measured."""
    runs = [{**run, "events": describe_run(run)} for run in results["runs"]]
    sizes = [run["parameters"] for run in runs]
    return {
        "runs": runs,
        "outcomes": stability_outcomes(runs, results["rates"]),
        "verdict": _verdict(runs, results),
        "tables": stability_tables(runs, results),
        "charts": stability_charts(runs, results),
        "failures": failures(runs),
        "limits": [
            f"Models of {count(min(sizes))} to {count(max(sizes))} parameters and {count(runs[0]['steps'])} steps: "
            "nothing here reproduces or refutes what was reported of models of 7B and more, late in their training.",
            "All variants have the same tokens and steps; parameters, FLOPs a token and seconds differ and are in "
            "the table.",
            "V1's exponents are bounded at 10 in this package, so that its lambda stays below 22,030; without the "
            "bound it would go on.",
            f"{len(results['seeds'])} run{'s' if len(results['seeds']) > 1 else ''} of each: another seed may have "
            "other events.",
        ],
    }


def _verdict(runs: list[dict[str, Any]], results: dict[str, Any]) -> list[str]:
    said = []
    for clip in results["clips"]:
        sound = {name: highest_sound_rate(runs, name, clip, results["rates"]) for name in results["variants"]}
        words = [
            f"{variant_name(name)} {'at none' if rate is None else 'up to ' + as_given(rate)}"
            for name, rate in sound.items()
        ]
        said.append(f"{'With' if clip else 'Without'} clipping, no event: {join_words(words)}.")
    return said
