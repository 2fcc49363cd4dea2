"""Measures of a trained model beside its loss, by name: what a person asks of one model, and a study of many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from diffattn.errors import UserError
from diffattn.evaluation import (
    answers,
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
from diffattn.tasks import TextExample, make_texts, number_tokens

__all__ = [
    "DIFFERENTIAL",
    "MEASURES",
    "ON_NEEDLES",
    "attention_on_needles",
    "first_sequences",
    "inspect_model",
    "needles_found",
]

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


def first_sequences(tokens: np.ndarray, length: int, count: int) -> np.ndarray:
    """Sequences from the start of a split's tokens, int64 `[at most count, length]`.

    Raises:
        UserError: the tokens do not fill one.
    """
    found = min(count, len(tokens) // length)
    if not found:
        raise UserError(f"the split has {len(tokens):,} tokens, which do not fill one sequence of {length:,}")
    return np.asarray(tokens[: found * length]).astype(np.int64).reshape(found, length)


def attention_on_needles(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, length: int, count: int
) -> dict[str, Any]:
    """Where each head's attention goes at the end of a prompt that asks for a needle, as `attention_mass.measure`.

    Args:
        model: a causal language model.
        tokenizer: its own.
        length: tokens of a prompt, at most.
        count: prompts, the needle at another depth in each.

    Returns:
        What `attention_mass.measure` finds as JSON has it, and `prompt_tokens`, the length.

    Raises:
        UserError: the length is too small for the needle and its question, or see `attention_mass.measure`.
    """

    examples = _needles(tokenizer, length, count, None)
    questions = text_questions(examples, tokenizer)
    found = attention_mass.measure(model, questions, attention_mass.AttentionMassConfig())
    return {"prompt_tokens": length, **found.to_dict()}


def needles_found(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, length: int, count: int
) -> dict[str, Any]:
    """Needles found by depth and length, in prompts of `length` tokens, of half and of a quarter as far as they fit.

    Args:
        model: a causal language model.
        tokenizer: its own.
        length: tokens of the longest prompts with their answers, at most.
        count: prompts of each depth and length, the same needles at every depth.

    Returns:
        `grid`, what `answers.measure_grid` finds as JSON has it, `depths` and `lengths`, and `numbers`, what the
        tokenizer makes of the answers that a reader must know, or None.

    Raises:
        UserError: the length is too small for the needle, its question and its answer.
    """
    config = answers.AnswersConfig()
    examples: dict[int, list[TextExample]] = {}
    for size in (length, length // 2, length // 4):
        try:
            found = [_needles(tokenizer, size - _ANSWER, count, depth) for depth in config.depths]
        except UserError:
            if not examples:
                raise
            break
        examples[size] = [example for of_depth in found for example in of_depth]
    grid = answers.measure_grid(model, examples, config, tokenizer=tokenizer)
    placed = sorted({answer for example in examples[length] for answer in example.answers})
    numbers = number_tokens(lambda text: tokenizer(text)["input_ids"], tokenizer.decode, placed)
    return {"depths": config.depths, "lengths": sorted(examples), "grid": grid.to_dict(), "numbers": numbers.problem}


def _needles(tokenizer: PreTrainedTokenizerBase, length: int, count: int, depth: float | None) -> list[TextExample]:
    def tokens_of(text: str) -> int:
        return len(tokenizer(text)["input_ids"])

    return make_texts("needle", tokens_of, length=length, depth=depth, examples=count, seed=0)


_ANSWER = 40  # tokens that a prompt leaves for its answer

#: Measures that ask for a needle in a text, and so take the tokenizer.
ON_NEEDLES = {"attention": attention_on_needles, "needles": needles_found}
