"""The sequences of a corpus that a study's smaller measures look at."""

from __future__ import annotations

import numpy as np

from diffattn.data import PreparedData

__all__ = ["ROWS", "rows"]

#: Sequences for the measures of a trained model.
ROWS = 8


def rows(data: PreparedData, context: int, count: int) -> np.ndarray:
    """Sequences from the start of the validation split, int64 `[at most count, context]`."""
    tokens = data.tokens("validation")
    count = min(count, len(tokens) // context)
    return tokens[: count * context].astype(np.int64).reshape(count, context)
