"""The setting of part 5: one match among 4,096 keys whose noise has a strength and, between the maps, a correlation."""

from __future__ import annotations

from functools import cache

from diffattn.lesson.draws import Pair, draw, measure
from diffattn.lesson.estimates import Estimate
from diffattn.planning.noise_model import NoiseModel

__all__ = ["LENGTH", "MARGIN", "gain", "measured", "model", "pairs"]

LENGTH, MARGIN, DRAWS = 4_096, 4.0, 24


def model(strength: float, correlation: float, second_margin: float = 0.0) -> NoiseModel:
    return NoiseModel(
        length=LENGTH, margin=MARGIN, strength=strength, correlation=correlation, second_margin=second_margin
    )


@cache
def pairs(strength: float, correlation: float) -> list[Pair]:
    return draw(model(strength, correlation), DRAWS, seed=50)


@cache
def measured(strength: float, correlation: float, lam: float = 0.0) -> Estimate:
    """Signal-to-noise with this lambda, drawn."""
    return measure(model(strength, correlation), pairs(strength, correlation), lam).signal_to_noise


def gain(strength: float, correlation: float, lam: float) -> Estimate:
    """What was measured over softmax's derived signal-to-noise."""
    found, softmax = measured(strength, correlation, lam), model(strength, correlation).signal_to_noise()
    return Estimate(found.value / softmax, found.error / softmax, found.draws)
