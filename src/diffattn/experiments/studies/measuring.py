"""What is measured of a trained language model beside its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from diffattn.data import PreparedData
from diffattn.evaluation import (
    bfloat16_error,
    context_rms,
    dead_pairs,
    lambda_values,
    outliers,
    quantised,
    switch_off,
)
from diffattn.evaluation.effects import Sample
from diffattn.training import TrainingSettings

__all__ = ["measure_model", "rows"]

_ROWS = 8


def rows(data: PreparedData, settings: TrainingSettings, count: int) -> np.ndarray:
    """Sequences from the start of the validation split, int64 `[at most count, context]`."""
    tokens = data.tokens("validation")
    count = min(count, len(tokens) // settings.context)
    return tokens[: count * settings.context].astype(np.int64).reshape(count, settings.context)


def measure_model(
    model: PreTrainedModel, data: PreparedData, settings: TrainingSettings, names: Sequence[str]
) -> dict[str, Any]:
    """Each named measure of `_MEASURES` on a few sequences of the validation split, as JSON has it.

    Those of differential attention alone are left out of other models.
    """
    batch = rows(data, settings, _ROWS)
    differential = model.config.maps == 2
    wanted = [name for name in names if differential or name not in _DIFFERENTIAL]
    return {name: _MEASURES[name](model, batch).to_dict() for name in wanted}


_DIFFERENTIAL = ("dead_pairs", "lambda_values", "switch_off")
_MEASURES: dict[str, Any] = {
    "bfloat16_error": lambda model, batch: bfloat16_error.measure(model, batch, bfloat16_error.Bfloat16ErrorConfig()),
    "context_rms": lambda model, batch: context_rms.measure(model, batch, context_rms.ContextRmsConfig()),
    "dead_pairs": lambda model, batch: dead_pairs.measure(
        model, batch, dead_pairs.DeadPairsConfig(queries=min(8, batch.shape[1] // 4))
    ),
    "lambda_values": lambda model, batch: lambda_values.measure(model, batch, lambda_values.LambdaValuesConfig()),
    "outliers": lambda model, batch: outliers.measure(model, batch, outliers.OutliersConfig()),
    "quantised": lambda model, batch: quantised.measure(model, Sample(tokens=batch), quantised.QuantisedConfig()),
    "switch_off": lambda model, batch: switch_off.measure(
        model, Sample(tokens=batch), switch_off.SwitchOffConfig(most_heads=16)
    ),
}
