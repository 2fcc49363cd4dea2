"""Measures of a trained model beside its loss, by name: what a person asks of one model, and a study of many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from diffattn.errors import UserError
from diffattn.evaluation import (
    attention_mass,
    bfloat16_error,
    context_rms,
    dead_pairs,
    gradient_norms,
    lambda_values,
    outliers,
    quantised,
    switch_off,
)
from diffattn.evaluation.answer_spans import text_questions
from diffattn.evaluation.effects import Sample
from diffattn.models import DiffTransformerConfig
from diffattn.tasks import make_texts

__all__ = ["DIFFERENTIAL", "MEASURES", "attention_on_needles", "inspect_model"]

Measure = Callable[[PreTrainedModel, np.ndarray], Any]


def _dead_pairs(model: PreTrainedModel, batch: np.ndarray) -> Any:
    queries = max(1, min(8, batch.shape[1] // 4))
    return dead_pairs.measure(model, batch, dead_pairs.DeadPairsConfig(queries=queries))


def _switch_off(model: PreTrainedModel, batch: np.ndarray) -> Any:
    return switch_off.measure(model, Sample(tokens=batch), switch_off.SwitchOffConfig(most_heads=16))


#: Each takes a model and sequences of tokens, int64 `[N, T]`, and gives a result with `to_dict`.
MEASURES: Mapping[str, Measure] = {
    "outliers": lambda model, batch: outliers.measure(model, batch, outliers.OutliersConfig()),
    "context_rms": lambda model, batch: context_rms.measure(model, batch, context_rms.ContextRmsConfig()),
    "gradient_norms": lambda model, batch: gradient_norms.measure(model, batch, gradient_norms.GradientNormsConfig()),
    "bfloat16_error": lambda model, batch: bfloat16_error.measure(model, batch, bfloat16_error.Bfloat16ErrorConfig()),
    "quantised": lambda model, batch: quantised.measure(model, Sample(tokens=batch), quantised.QuantisedConfig()),
    "lambda_values": lambda model, batch: lambda_values.measure(model, batch, lambda_values.LambdaValuesConfig()),
    "switch_off": _switch_off,
    "dead_pairs": _dead_pairs,
}
#: Those of differential attention alone.
DIFFERENTIAL = ("lambda_values", "switch_off", "dead_pairs")


def inspect_model(model: PreTrainedModel, batch: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Each named measure's result as JSON has it; those of differential attention are left out of other models.

    Args:
        model: a causal language model.
        batch: sequences of its tokens, int64 `[N, T]`.
        names: of `MEASURES`.

    Raises:
        UserError: a name is not known, or a measure cannot be taken of this model.
    """
    unknown = [name for name in names if name not in MEASURES]
    if unknown or not names:
        raise UserError(f"there is no measure {(unknown or [''])[0]!r}: use some of {', '.join(MEASURES)}")
    differential = isinstance(model.config, DiffTransformerConfig) and model.config.maps == 2
    wanted = [name for name in names if differential or name not in DIFFERENTIAL]
    return {name: MEASURES[name](model, batch).to_dict() for name in wanted}


def attention_on_needles(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, length: int, count: int
) -> dict[str, Any]:
    """Where each head's attention goes at the end of a prompt that asks for a needle, as `attention_mass.measure`.

    Args:
        model: a causal language model.
        tokenizer: its own.
        length: tokens of a prompt, at most.
        count: prompts, the needle at another depth in each.
    """

    def tokens_of(text: str) -> int:
        return len(tokenizer(text)["input_ids"])

    examples = make_texts("needle", tokens_of, length=length, examples=count, seed=0)
    questions = text_questions(examples, tokenizer)
    return attention_mass.measure(model, questions, attention_mass.AttentionMassConfig()).to_dict()
