"""The noise laboratory: what a second map takes away of attention's noise, measured on drawn scores."""

from __future__ import annotations

from diffattn.experiments.noise.folder import reserved, write_results
from diffattn.experiments.noise.laboratory import run_noise
from diffattn.experiments.noise.settings import LENGTHS, NoiseRequest

__all__ = ["LENGTHS", "NoiseRequest", "reserved", "run_noise", "write_results"]
