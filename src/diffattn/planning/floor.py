"""What the noise model says at a context, under assumptions that are stated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffattn.planning.noise_model import (
    NoiseModel,
    best_sharpening,
    limit_gain,
    losing_strength,
    margin_for_noise_mass,
)

__all__ = ["NoiseAssumptions", "noise_floor"]


@dataclass(frozen=True, kw_only=True)
class NoiseAssumptions:
    """What the noise model needs and no configuration tells; `diffattn noise --model` measures it on a model.

    Attributes:
        margin, strength, second_margin: as in `NoiseModel`.
        correlations: between the two maps' noise; what training finds is not known beforehand.
        lam: a fixed lambda to compare with the best; V2 starts at 0.5.
        measured: whether margin and strength are a model's own; otherwise they are assumed.
    """

    margin: float = 8.0
    strength: float = 1.0
    second_margin: float = 0.0
    correlations: tuple[float, ...] = (0.0, 0.5, 0.9)
    lam: float = 0.5
    measured: bool = False

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("margin", self.margin, -100, 100),
            ("strength", self.strength, 0.01, 10),
            ("second_margin", self.second_margin, -100, 100),
            ("lambda", self.lam, 0, 100),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name}: expected a number from {low:g} to {high:g}, got {value:g}")
        for rho in self.correlations:
            self.at(2, rho)

    def at(self, length: int, correlation: float = 0.0) -> NoiseModel:
        return NoiseModel(
            length=length,
            margin=self.margin,
            strength=self.strength,
            second_margin=self.second_margin,
            correlation=correlation,
        )


def noise_floor(assumed: NoiseAssumptions, context: int) -> dict[str, Any]:
    """Softmax's floor at this context, and what subtraction and sharper scores bring.

    Returns:
        softmax's numbers; `holds`, whether the closed form may be trusted; a row for each correlation.
    """
    plain = assumed.at(context)
    sharp = best_sharpening(assumed.margin, assumed.strength)
    fixed = assumed.lam
    return {
        "context": context,
        "holds": plain.holds,
        "noise_mass": plain.noise_mass(),
        "signal_to_noise": plain.signal_to_noise(),
        "output_signal_to_noise": plain.output_signal_to_noise(),
        "largest_chance": plain.largest_chance,
        "margin_for_tenth": margin_for_noise_mass(context, assumed.strength),
        "sharpening": sharp,
        "losing_strength": losing_strength(fixed) if 0 < fixed <= 1 else None,
        "rows": [_row(assumed.at(context, rho), fixed) for rho in assumed.correlations],
    }


def _row(model: NoiseModel, fixed: float) -> dict[str, Any]:
    best, best_output = model.best_lambda(), model.best_output_lambda()
    output_gain = model.output_signal_to_noise(best_output) / model.output_signal_to_noise()
    return {
        "correlation": model.correlation,
        "best_lambda": best,
        "gain": model.gain(best),
        "fixed_lambda": fixed,
        "fixed_gain": model.gain(fixed),
        "limit_gain": limit_gain(model.strength, model.correlation),
        "output_gain": output_gain,
        "length_factor": output_gain**2,
    }
