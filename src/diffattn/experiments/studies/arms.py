"""The arms of a study on text: tuned on an equal budget, trained with the same seeds, measured alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from diffattn.data import PreparedData
from diffattn.experiments.presets import Preset
from diffattn.experiments.studies.budgets import curve_at
from diffattn.experiments.studies.comparisons import seeds_text
from diffattn.experiments.studies.jobs import Job, Laboratory
from diffattn.experiments.studies.text_job import WORK, arguments_of
from diffattn.experiments.studies.tuning import TUNING_SEED, check_rates, chosen_rates

__all__ = ["Arm", "TextPreset", "run_arms", "with_constant_rate"]


@dataclass(frozen=True, kw_only=True)
class TextPreset:
    """One size of a study on text.

    Attributes:
        name, summary: for whoever chooses.
        size: baseline model and training.
        seeds: runs of each arm.
        rates: learning rates tried.
        tuning_share: of the tokens, in a tuning run.
        validation_tokens: predicted at every logged step.
        speed_rounds: samples of each step time.
        measures: of every trained model, as `inspect_model` takes them.

    Raises:
        ValueError: fewer than one seed, or a rate or share out of range.
    """

    name: str
    summary: str
    size: Preset
    seeds: int = 3
    rates: tuple[float, ...] = (1e-3, 2e-3, 4e-3)
    tuning_share: float = 0.25
    validation_tokens: int = 16_384
    speed_rounds: int = 12
    measures: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")
        check_rates(self.rates)
        if not 0 < self.tuning_share <= 1:
            raise ValueError(f"tuning_share must be above 0 and at most 1, got {self.tuning_share}")

    @property
    def largest(self) -> Preset:
        """The size with the most tokens in its vocabulary."""
        return self.size

    @property
    def stopping_rule(self) -> str:
        """When the study ends, in words."""
        return (
            f"{seeds_text(self.seeds)} of each, fixed beforehand; no run is added or left out after a look at the "
            "results. A run whose loss is not finite counts as diverged, and no difference is computed from it."
        )


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What is trained under one name.

    Attributes:
        variant: one of `STUDY_VARIANTS`.
        fields: of its configuration.
        size: another than the preset's.
        tuned_as: the name that its learning rate is chosen under; arms with the same name share it. Default its own.
    """

    variant: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    size: Preset | None = None
    tuned_as: str | None = None


def with_constant_rate(size: Preset, logged: int = 20, **changes: Any) -> Preset:
    """The size with a learning rate that stays where it is after the warm-up, and so many logged steps."""
    settings = replace(size.settings, min_learning_rate_ratio=1.0, **changes)
    return replace(size, settings=replace(settings, log_every=max(1, settings.steps // logged)))


def run_arms(
    preset: TextPreset, arms: Mapping[str, Arm], data: PreparedData, source: str, laboratory: Laboratory
) -> dict[str, Any]:
    """Tune, train and measure every arm.

    Returns:
        `seeds`, `variants` (the arms' names), `tuning` by name, `runs` (results of `text_job.run`, `variant` being the
        arm's name) and `settings`.
    """

    def job(name: str, rate: float, seed: int, share: float = 1.0, **more: Any) -> Job:
        arm = arms[name]
        size = arm.size or preset.size
        tokens = round(size.settings.tokens * share)
        watch = {"validation": preset.validation_tokens}
        changes: dict[str, Any] = {"learning_rate": rate, "tokens": tokens, "watch": watch, "fields": dict(arm.fields)}
        own = arguments_of(arm.variant, size, data, source, seed=seed, **changes, **more)
        return Job(id=f"{name.replace(' ', '-')}-seed{seed}-rate{rate:g}", work=WORK, arguments=own)

    groups: dict[str, str] = {}
    for name, arm in arms.items():
        groups.setdefault(arm.tuned_as or name, name)
    tuned = chosen_rates(
        laboratory,
        list(groups),
        preset.rates,
        lambda group, rate: job(groups[group], rate, TUNING_SEED, preset.tuning_share),
        lambda result: curve_at(result, result["tokens"]),
    )
    tuning = {name: tuned[arm.tuned_as or name] for name, arm in arms.items()}
    after: dict[str, Any] = {"splits": {"test": preset.size.evaluation_tokens}, "measures": preset.measures}
    order = [(seed, name) for seed in range(preset.seeds) for name in arms]
    jobs = {(seed, name): job(name, tuning[name]["rate"], seed, **after) for seed, name in order}
    found = laboratory.run(list(jobs.values()), "training")
    return {
        "seeds": list(range(preset.seeds)),
        "variants": list(arms),
        "tuning": tuning,
        "runs": [{**found[jobs[key].id], "variant": key[1]} for key in order],
        "settings": preset.size.settings.to_dict(),
    }
