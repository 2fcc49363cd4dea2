"""Needles in haystacks: small models trained at 256 tokens, asked at up to 8 times that, with their controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from diffattn.experiments.studies.comparisons import Hypothesis, judge, outcome_rows
from diffattn.experiments.studies.jobs import Job, Laboratory
from diffattn.experiments.studies.needle_charts import needle_charts
from diffattn.experiments.studies.needle_job import WORK, Condition, NeedleModel, arguments_of
from diffattn.experiments.studies.needle_report import needle_limits, needle_tables, needle_verdict
from diffattn.experiments.studies.needle_values import accuracy_at, rate_at, usable
from diffattn.experiments.studies.tuning import TUNING_SEED, chosen_rates
from diffattn.experiments.studies.variants import STUDY_VARIANTS, check_study_variants
from diffattn.report.wording import variant_name
from diffattn.training.task_settings import TaskTraining

__all__ = ["CONDITIONS", "PRESETS", "TEXT", "TITLE", "NeedlePreset", "collect", "conclude", "protocol"]

TITLE = "Does differential attention find the needle?"
TEXT = False
_PLAIN = {"haystack": "filler", "questions": 8}
_TRAINING = TaskTraining(learning_rate=3e-3, max_steps=400, tokens_per_step=1024, window=10)
_FLOOR = {"haystack": "distractors", "questions": 8}

#: What is trained and asked; all but the last ask for facts that are there.
CONDITIONS = {
    condition.name: condition
    for condition in (
        Condition(name="plain", title="filler, no positions", facts=_PLAIN, rotary=False),
        Condition(name="rope", title="filler, rotary positions", facts=_PLAIN, rotary=True, tuned_as="plain"),
        Condition(
            name="rope-long",
            title="filler, rotary positions, trained at all lengths",
            facts=_PLAIN,
            rotary=True,
            lengths=(32, 64, 128, 256, 512, 1024, 2048),
            steps=600,
            tuned_as="plain",
        ),
        Condition(
            name="floor", title="distractors, no positions, noisy embeddings", facts=_FLOOR, rotary=False, noise=0.4
        ),
        Condition(
            name="absent",
            title="absent keys and near-duplicates, no positions",
            facts={"haystack": "filler", "absent": 0.25, "near_duplicates": 1, "facts": 6, "questions": 8},
            rotary=False,
            steps=800,
        ),
    )
}


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
    rates: tuple[float, ...] = (1e-3, 2e-3, 4e-3)
    lengths: tuple[int, ...] = (256, 512, 1024, 2048)
    sequences: int = 64

    def __post_init__(self) -> None:
        check_study_variants(self.variants)
        if "softmax" not in self.variants:
            raise ValueError("variants must hold softmax, which the others are compared with")
        if self.seeds < 1 or not self.rates or not set(self.conditions) <= set(CONDITIONS):
            raise ValueError("seeds must be at least 1, rates hold one, and conditions be known ones")
        if self.lengths[0] != self.training.lengths[-1]:
            raise ValueError(f"lengths must begin with the last one trained on, {self.training.lengths[-1]}")


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
    stated = [one for one, _ in _hypotheses(preset.variants, preset.conditions, preset.lengths)]
    return {
        "hypotheses": [{"name": one.name, "text": one.text} for one in stated],
        "stopping_rule": f"{preset.seeds} seeds a variant and condition and a number of steps, all fixed beforehand. A "
        f"task is learned when {preset.training.threshold:.0%} of the questions of {preset.training.window} steps were "
        "answered at the last length. A variant that misses this with any seed is reported so and left out of what is "
        "said of length.",
        "analysis": f"The learning rate of each variant is the one of {len(preset.rates)} that learns in the "
        "fewest steps with a seed of its own. Differences are paired by seed; 95% t intervals; p values corrected "
        f"by Holm over all {len(stated)} hypotheses.",
    }


def collect(request: Any, laboratory: Laboratory, data: None) -> dict[str, Any]:
    """Tune, train and ask."""
    preset: NeedlePreset = request.preset

    def job(condition: str, variant: str, rate: float, seed: int) -> Job:
        tuning = seed == TUNING_SEED
        # Beside tuning, learning the task ends no run: all variants see the same number of tokens.
        extra = 0 if tuning else preset.training.max_steps * 10
        training = replace(preset.training, learning_rate=rate, seed=seed, extra_steps=extra)
        tests = {
            "lengths": [] if tuning else list(preset.lengths),
            "sequences": preset.sequences,
            "look": not tuning and not CONDITIONS[condition].noise,
        }
        own = arguments_of(variant, CONDITIONS[condition], preset.model, training, tests)
        return Job(id=f"{condition}-{variant}-seed{seed}-rate{rate:g}", work=WORK, arguments=own)

    tuning: dict[str, Any] = {}
    for condition in sorted(preset.conditions, key=lambda name: CONDITIONS[name].tuned_as is not None):
        source = CONDITIONS[condition].tuned_as
        if source not in tuning:
            tuned = partial(job, condition, seed=TUNING_SEED)
            tuning[condition] = chosen_rates(laboratory, preset.variants, preset.rates, tuned, _steps_to_learn)
        else:
            tuning[condition] = tuning[source]
    order = [(s, c, v) for s in range(preset.seeds) for c in preset.conditions for v in preset.variants]
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
    for stated, (condition, what, length) in _hypotheses(
        results["variants"], results["conditions"], results["lengths"]
    ):
        ours, theirs = (_values(runs, name, condition, what, length) for name in (stated.variant, stated.baseline))
        pairs.append((stated, ours, theirs))
    comparisons = judge(pairs)
    return {
        "comparisons": comparisons,
        "outcomes": outcome_rows(comparisons),
        "verdict": needle_verdict(comparisons, results),
        "tables": needle_tables(comparisons, results),
        "charts": needle_charts(results),
        "failures": _failures(results),
        "limits": needle_limits(results),
    }


def _hypotheses(
    variants: Sequence[str], conditions: Mapping[str, str] | Sequence[str], lengths: Sequence[int]
) -> list[tuple[Hypothesis, tuple[str, str, int]]]:
    """Of V1 and V2 against softmax: each with its condition, rate and length."""
    found = []
    for variant in ("v1", "v2"):
        for condition in conditions:
            asked = ("fabrication", "false_citation") if condition == "absent" else ("accuracy",)
            for what in asked if variant in variants else ():
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


def _values(runs: Sequence[Any], variant: str, condition: str, what: str, length: int) -> dict[int, float | None]:
    """By seed; None for all seeds where the variant missed the threshold with one."""
    own = [run for run in runs if run["variant"] == variant and run["condition"] == condition]
    value = accuracy_at if what == "accuracy" else rate_at
    counted = usable(own)
    return {run["seed"]: value(run, length, what) if counted else None for run in own}


def _steps_to_learn(run: Mapping[str, Any]) -> float | None:
    """Steps to the threshold at the last length; beyond all steps, by how little was missing, where it was not "
    "reached."""
    if run["diverged_at"] is not None:
        return None
    steps = run["reached"][-1]["steps"]
    if steps is not None:
        return float(steps)
    reached = sum(entry["steps"] is not None for entry in run["reached"])
    return run["steps"] * (2.0 + len(run["reached"]) - reached - run["curves"]["accuracy"][-1])


def _failures(results: Mapping[str, Any]) -> list[str]:
    found = []
    for run in results["runs"]:
        what = f"{variant_name(run['variant'])}, {results['conditions'][run['condition']]}, seed {run['seed']}"
        if run["diverged_at"] is not None:
            found.append(f"{what}: diverged, its loss was not finite at step {run['diverged_at']}.")
        elif not run["learned"]:
            found.append(f"{what}: missed the threshold in {run['steps']} steps.")
    return found
