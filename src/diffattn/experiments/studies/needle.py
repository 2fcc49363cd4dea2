"""Needles in haystacks: small models trained at 256 tokens, asked at up to 8 times that, with their controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from diffattn.experiments.studies.comparisons import judge, outcome_rows, seeds_text
from diffattn.experiments.studies.jobs import Job, Laboratory
from diffattn.experiments.studies.needle_charts import needle_charts
from diffattn.experiments.studies.needle_conditions import CONDITIONS
from diffattn.experiments.studies.needle_hypotheses import needle_hypotheses, needle_values
from diffattn.experiments.studies.needle_job import WORK, NeedleModel, arguments_of
from diffattn.experiments.studies.needle_report import needle_limits, needle_tables, needle_verdict
from diffattn.experiments.studies.tuning import TUNING_SEED, check_rates, chosen_rates
from diffattn.experiments.studies.variants import STUDY_VARIANTS, check_study_variants
from diffattn.report.wording import finite, variant_name
from diffattn.training.task_settings import TaskTraining

__all__ = ["CONDITIONS", "PRESETS", "TEXT", "TITLE", "NeedlePreset", "collect", "conclude", "protocol"]

TITLE = "Does differential attention find the needle?"
TEXT = False
_TRAINING = TaskTraining(learning_rate=3e-3, max_steps=300, tokens_per_step=1024, window=10)


@dataclass(frozen=True, kw_only=True)
class NeedlePreset:
    """One size of the study.

    Attributes:
        name, summary: for whoever chooses.
        model: the baseline's size.
        training: of each run; its rate and seed are set for it.
        variants: of `STUDY_VARIANTS`, softmax among them.
        conditions: of `CONDITIONS`.
        seeds: runs of each.
        rates: learning rates tried for each variant and each condition that has its own.
        lengths: at which questions are asked, rising; the first is the last one trained on.
        sequences: of each length, with eight questions each.
    """

    name: str
    summary: str
    model: NeedleModel = field(default_factory=NeedleModel)
    training: TaskTraining = field(default=_TRAINING)
    variants: tuple[str, ...] = tuple(STUDY_VARIANTS)
    conditions: tuple[str, ...] = tuple(CONDITIONS)
    seeds: int = 3
    rates: tuple[float, ...] = (1e-3, 3e-3)
    lengths: tuple[int, ...] = (256, 512, 1024, 2048)
    sequences: int = 64

    def __post_init__(self) -> None:
        check_study_variants(self.variants)
        if "softmax" not in self.variants:
            raise ValueError("variants must hold softmax, which the others are compared with")
        check_rates(self.rates)
        if self.seeds < 1 or not set(self.conditions) <= set(CONDITIONS):
            raise ValueError("seeds must be at least 1, and conditions be known ones")
        if self.lengths[0] != self.training.lengths[-1]:
            raise ValueError(f"lengths must begin with the last one trained on, {self.training.lengths[-1]}")


_QUESTIONS = {False: 1_000_000, True: 2_000_000}  # seeds of the questions: the same for all models, others for tuning

PRESETS = {
    preset.name: preset
    for preset in (
        NeedlePreset(
            name="default", summary="0.4M parameters, five conditions, eight variants, three seeds: on two cores"
        ),
        NeedlePreset(
            name="large",
            summary="four layers of width 512, asked at up to 16,384 tokens, five seeds: for a GPU",
            model=NeedleModel(hidden_size=512, layers=4, heads=8, intermediate_size=1024, initial_std=0.04),
            training=replace(
                _TRAINING, max_steps=5000, tokens_per_step=65_536, lengths=(32, 64, 128, 256, 512, 1024, 2048)
            ),
            conditions=("plain", "rope", "floor", "absent"),
            seeds=5,
            rates=(3e-4, 1e-3, 3e-3),
            lengths=(2048, 4096, 8192, 16_384),
            sequences=512,
        ),
    )
}


def protocol(preset: NeedlePreset) -> dict[str, Any]:
    """Hypotheses, stopping rule and analysis, before anything is run."""
    stated = [one for one, _ in needle_hypotheses(preset.variants, preset.conditions, preset.lengths)]
    return {
        "hypotheses": [{"name": one.name, "text": one.text} for one in stated],
        "stopping_rule": f"{seeds_text(preset.seeds)} a variant and condition and a number of steps, all fixed "
        f"beforehand. A task is learned when {preset.training.threshold:.0%} of the questions of "
        f"{preset.training.window} steps were answered at the last length. A variant that misses this with any seed "
        "is reported so and left out of what is said of length.",
        "analysis": f"The learning rate of each variant is the one of {len(preset.rates)} with the "
        "lowest loss on other questions at the length trained on, each tried once with a seed of its own. "
        f"Differences are paired by seed; 95% t intervals; p values corrected by Holm over all {len(stated)} "
        "hypotheses.",
    }


def collect(request: Any, laboratory: Laboratory, data: None) -> dict[str, Any]:
    """Tune, train and ask."""
    preset: NeedlePreset = request.preset

    def job(condition: str, variant: str, rate: float, seed: int) -> Job:
        tuning = seed == TUNING_SEED
        # Learning the task ends no run: all variants see the same number of tokens.
        steps = preset.training.max_steps
        training = replace(preset.training, learning_rate=rate, seed=seed, extra_steps=10 * steps)
        tests = {
            "lengths": list(preset.lengths[: 1 if tuning else None]),
            "sequences": preset.sequences,
            "seed": _QUESTIONS[tuning],
            "look": not tuning and not CONDITIONS[condition].noise,
        }
        own = arguments_of(variant, CONDITIONS[condition], preset.model, training, tests)
        return Job(id=f"{condition}-{variant}-seed{seed}-rate{rate:g}", work=WORK, arguments=own)

    tuning: dict[str, Any] = {}
    for condition in sorted(preset.conditions, key=lambda name: CONDITIONS[name].tuned_as is not None):
        source = CONDITIONS[condition].tuned_as
        if source not in tuning:
            tuned = partial(job, condition, seed=TUNING_SEED)
            tuning[condition] = chosen_rates(laboratory, preset.variants, preset.rates, tuned, _held_out_loss)
        else:
            tuning[condition] = tuning[source]
    order = [
        (seed, condition, variant)
        for seed in range(preset.seeds)
        for condition in preset.conditions
        for variant in CONDITIONS[condition].of(preset.variants)
    ]
    jobs = [job(c, v, tuning[c][v]["rate"], seed) for seed, c, v in order]
    runs = laboratory.run(jobs, "training and asking")
    return {
        "seeds": list(range(preset.seeds)),
        "variants": list(preset.variants),
        "conditions": {name: CONDITIONS[name].title for name in preset.conditions},
        "lengths": list(preset.lengths),
        "tuning": tuning,
        "runs": list(runs.values()),
        "settings": preset.training.to_dict(),
    }


def conclude(results: dict[str, Any]) -> dict[str, Any]:
    """Comparisons, verdict, tables and charts from what was measured."""
    runs = results["runs"]
    pairs = []
    for stated, (condition, what, length) in needle_hypotheses(
        results["variants"], results["conditions"], results["lengths"]
    ):
        ours, theirs = (
            needle_values(runs, name, condition, what, length) for name in (stated.variant, stated.baseline)
        )
        pairs.append((stated, ours, theirs))
    comparisons = judge(pairs, "missed the threshold")
    return {
        "comparisons": comparisons,
        "outcomes": outcome_rows(comparisons),
        "verdict": needle_verdict(comparisons, results),
        "tables": needle_tables(comparisons, results),
        "charts": needle_charts(results),
        "failures": _failures(results),
        "limits": needle_limits(results),
    }


def _held_out_loss(run: Mapping[str, Any]) -> float | None:
    """Of other questions at the last length trained on; None where the run diverged."""
    measured = run["retrieval"].values()
    return next((finite(result["loss"]) for result in measured), None)


def _failures(results: Mapping[str, Any]) -> list[str]:
    found = []
    for run in results["runs"]:
        what = f"{variant_name(run['variant'])}, {results['conditions'][run['condition']]}, seed {run['seed']}"
        if run["diverged_at"] is not None:
            found.append(f"{what}: diverged, its loss was not finite at step {run['diverged_at']}.")
        elif not run["learned"]:
            found.append(f"{what}: missed the threshold in {run['steps']} steps.")
    return found
