"""What is measured while a model is being trained on text."""

from __future__ import annotations

from typing import Any

from diffattn.data import PreparedData
from diffattn.evaluation import PerplexityConfig, context_rms, perplexity
from diffattn.experiments.inspection import first_sequences
from diffattn.training import TrainingSettings
from diffattn.training.trainer import Watch

__all__ = ["watcher"]

_ROWS = 2  # sequences of the validation split that the smaller measures look at


def watcher(data: PreparedData, settings: TrainingSettings, wanted: dict[str, Any]) -> Watch | None:
    """A watch for `train`.

    Args:
        data: its validation split is measured.
        settings: of the training.
        wanted: `validation`: tokens to predict, giving `validation`, bits a byte; `context_rms`: True for
            `context_rms`, the largest over layers of the context's RMS before any norm.

    Returns:
        The watch; None where nothing is wanted.
    """
    makers = {"validation": _validation, "context_rms": _context_rms}
    parts = [makers[name](data, settings, value) for name, value in wanted.items() if value]
    if not parts:
        return None
    return lambda model: {name: value for part in parts for name, value in part(model).items()}


def _validation(data: PreparedData, settings: TrainingSettings, tokens: int) -> Watch:
    config = PerplexityConfig(split="validation", context=settings.context, max_tokens=tokens)
    return lambda model: {"validation": perplexity.measure(model, data, config).bits_per_byte}


def _context_rms(data: PreparedData, settings: TrainingSettings, wanted: bool) -> Watch:
    tokens, config = data.tokens("validation"), context_rms.ContextRmsConfig()
    batch = first_sequences(tokens, settings.context, _ROWS)
    return lambda model: {"context_rms": context_rms.measure(model, batch, config).largest}
