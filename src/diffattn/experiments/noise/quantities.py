"""The numbers that a map is judged by: measured over draws, and in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from diffattn.experiments.noise.estimate import Array, jackknife
from diffattn.planning.noise_model import NoiseModel

__all__ = ["QUANTITIES", "Quantity", "closed_form", "describe"]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One number.

    Attributes:
        statistic: makes it from means over draws `[..., 8]`, the map's four sums and then softmax's, and from the
            number of keys that are not the match.
        ratio: it is a ratio of two means, above 0, so that its interval is taken of the logarithm.
    """

    statistic: Callable[[Array, int], Array]
    ratio: bool = False


def _signal_to_noise(sums: Array, others: int) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.abs(sums[..., 0]) * others / sums[..., 1]


def _output_signal_to_noise(sums: Array, others: int) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.abs(sums[..., 0]) / np.sqrt(sums[..., 3])


def _over_softmax(statistic: Callable[[Array, int], Array]) -> Callable[[Array, int], Array]:
    def ratio(sums: Array, others: int) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return statistic(sums, others) / statistic(np.roll(sums, 4, axis=-1), others)

    return ratio


QUANTITIES = {
    "match_weight": Quantity(statistic=lambda sums, _: sums[..., 0]),
    "noise_mass": Quantity(statistic=lambda sums, _: sums[..., 1]),
    "negative_mass": Quantity(statistic=lambda sums, _: (sums[..., 1] - sums[..., 2]) / 2),
    "row_sum": Quantity(statistic=lambda sums, _: np.round(sums[..., 0] + sums[..., 2], 12)),
    "signal_to_noise": Quantity(statistic=_signal_to_noise, ratio=True),
    "output_signal_to_noise": Quantity(statistic=_output_signal_to_noise, ratio=True),
    "gain": Quantity(statistic=_over_softmax(_signal_to_noise), ratio=True),
    "output_gain": Quantity(statistic=_over_softmax(_output_signal_to_noise), ratio=True),
}


def closed_form(model: NoiseModel, lam: float) -> dict[str, float | None]:
    """Every quantity as the noise model has it; None where a number outgrows what a float holds."""
    return {
        "match_weight": _finite(lambda: model.match_weight(lam)),
        "noise_mass": _finite(lambda: model.noise_mass(lam)),
        "negative_mass": _finite(lambda: model.negative_mass(lam)),
        "row_sum": 1 - lam,
        "signal_to_noise": _finite(lambda: model.signal_to_noise(lam)),
        "output_signal_to_noise": _finite(lambda: model.output_signal_to_noise(lam)),
        "gain": _finite(lambda: model.gain(lam)),
        "output_gain": _finite(lambda: model.output_signal_to_noise(lam) / model.output_signal_to_noise()),
    }


def describe(
    sums: Array, softmax: Array, others: int, closed: dict[str, float | None]
) -> dict[str, dict[str, float | bool | None]]:
    """Each quantity's `value`, interval (`low`, `high`), standard `error`, `closed_form` where there is one, and
    whether it lies `inside` the interval (None without one, and where there is no chance in the number).

    Args:
        sums: `[draws, 4]` of the map; `softmax`: of softmax on the same draws.
        others: keys that are not the match.
        closed: the closed form of each quantity, as far as there is one.
    """
    both = np.concatenate([sums, softmax], axis=-1)
    return {name: _beside(both, others, quantity, closed.get(name)) for name, quantity in QUANTITIES.items()}


def _beside(both: Array, others: int, quantity: Quantity, expected: float | None) -> dict[str, float | bool | None]:
    found = jackknife(both, lambda means: quantity.statistic(means, others), positive=quantity.ratio)
    chance = found.error is not None and found.error > max(1e-9 * abs(found.value), 1e-15)
    inside = found.holds(expected) if expected is not None and chance else None
    return {**asdict(found), "closed_form": expected, "inside": inside}


def _finite(number: Callable[[], float]) -> float | None:
    try:
        value = number()
    except (OverflowError, ZeroDivisionError):
        return None
    return value if math.isfinite(value) else None
