"""No measure makes a tensor of T x T."""

from __future__ import annotations

import numpy as np
import pytest

from diffattn.evaluation import (
    _logits,
    attention_mass,
    bfloat16_error,
    context_rms,
    gradient_norms,
    lambda_values,
    outliers,
    recorded_scores,
)
from diffattn.evaluation.answer_spans import SpanQuestions
from largest_tensor import LargestTensor
from loud_models import VOCABULARY, foreign, ours

LENGTH = 1024
MEASURES = {
    "outliers": (outliers, outliers.OutliersConfig()),
    "some outliers": (outliers, outliers.OutliersConfig(every=100)),
    "context_rms": (context_rms, context_rms.ContextRmsConfig()),
    "lambda_values": (lambda_values, lambda_values.LambdaValuesConfig()),
    "gradient_norms": (gradient_norms, gradient_norms.GradientNormsConfig()),
    "bfloat16_error": (bfloat16_error, bfloat16_error.Bfloat16ErrorConfig()),
}


def run(name, model):
    tokens = np.random.default_rng(0).integers(1, VOCABULARY, (1, LENGTH))
    if name == "attention_mass":
        asked = np.array([[LENGTH - 1, LENGTH // 2, 7]])
        data = SpanQuestions(tokens=tokens, queries=asked, sources=asked // 2)
        return attention_mass.measure(model, data, attention_mass.AttentionMassConfig())
    module, config = MEASURES[name]
    return module.measure(model, tokens, config)


@pytest.mark.parametrize("kind", ["v2", "gemma2"])
@pytest.mark.parametrize("name", ["attention_mass", *MEASURES])
def test_no_tensor_is_as_large_as_a_map(name, kind, monkeypatch):
    if kind == "gemma2" and name not in ("attention_mass", "outliers", "some outliers"):
        pytest.skip("the model's own forward, eager for its softcap, makes such tensors")
    monkeypatch.setattr(recorded_scores, "_BLOCK", 1 << 16)
    monkeypatch.setattr(_logits, "_PIECE", 1 << 16)
    model = ours(kind) if kind == "v2" else foreign(kind)
    with LargestTensor() as largest:
        run(name, model)
    assert largest.elements < LENGTH**2 / 2  # a histogram has 2^18
