"""What is measured of a trained language model beside its loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import PreTrainedModel

from diffattn.data import PreparedData
from diffattn.training import TrainingSettings

__all__ = ["measure_model", "rows"]


def rows(data: PreparedData, settings: TrainingSettings, count: int) -> np.ndarray:
    """Sequences from the start of the validation split, int64 `[at most count, context]`."""
    tokens = data.tokens("validation")
    count = min(count, len(tokens) // settings.context)
    return tokens[: count * settings.context].astype(np.int64).reshape(count, settings.context)


def measure_model(
    model: PreTrainedModel, data: PreparedData, settings: TrainingSettings, names: list[str]
) -> dict[str, Any]:
    """Each named measure's result as JSON has it."""
    return {}
