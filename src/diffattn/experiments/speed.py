"""Speed of several models side by side: samples in alternating rounds, so that a slow minute is slow for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from transformers import PreTrainedModel

from diffattn.data import PreparedData
from diffattn.data.progress import delayed_progress
from diffattn.evaluation import decoding, training_step
from diffattn.evaluation.decoding import DecodingConfig
from diffattn.evaluation.training_step import TrainingStepConfig

__all__ = ["SpeedConfig", "alternate", "measure_speed", "ratios"]

Models = Mapping[str, PreTrainedModel]


@dataclass(frozen=True, kw_only=True)
class SpeedConfig:
    """What to time.

    Attributes:
        rounds: samples of each model and measure.
        training_step: one forward and backward.
        decode: greedy tokens with a cache.
    """

    rounds: int = 8
    training_step: TrainingStepConfig
    decode: DecodingConfig

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")


def measure_speed(
    models: Models, baseline: str, data: PreparedData, config: SpeedConfig, *, progress: bool = True
) -> dict[str, Any]:
    """Time every model in turn, round after round.

    Returns:
        "train_step" and "decode"; in each, for each model, its samples ("seconds" or "milliseconds_per_token") and
        "ratio_median", "ratio_low", "ratio_high": median and quartiles of its time over the baseline's of the
        same round.
    """
    measures = {
        "train_step": ("seconds", lambda model: training_step.measure(model, data, config.training_step)),
        "decode": ("milliseconds_per_token", lambda model: decoding.measure(model, data, config.decode)),
    }
    total = len(measures) * len(models) * (config.rounds + 1)
    with delayed_progress("Measuring speed", total, enabled=progress) as advance:
        return {
            name: _summary(alternate(models, sample, config.rounds, advance), baseline, unit)
            for name, (unit, sample) in measures.items()
        }


def alternate(
    models: Models,
    sample: Callable[[PreTrainedModel], float],
    rounds: int,
    advance: Callable[[float], None] = lambda _: None,
) -> dict[str, list[float]]:
    """`rounds` samples of each model, after one that does not count; every other round goes the other way round."""
    names = list(models)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names if turn % 2 else reversed(names):
            value = sample(models[name])
            advance(1)
            if turn:
                samples[name].append(value)
    return samples


def ratios(samples: list[float], baseline: list[float]) -> dict[str, float]:
    """Median and quartiles of the ratios of the two, round by round."""
    found = [ours / theirs for ours, theirs in zip(samples, baseline, strict=True)]
    low, _, high = quantiles(found, method="inclusive") if len(found) > 1 else found * 3
    return {"ratio_median": median(found), "ratio_low": low, "ratio_high": high}


def _summary(samples: dict[str, list[float]], baseline: str, unit: str) -> dict[str, Any]:
    return {name: {unit: values, **ratios(values, samples[baseline])} for name, values in samples.items()}
