from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from diffattn.errors import UserError
from diffattn.evaluation import _logits
from diffattn.evaluation.sequence_losses import sequence_losses


@pytest.fixture
def capped():
    """Its logits are not the output matrix's: 2 tanh(x / 2)."""
    torch.manual_seed(0)
    fields = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64}
    model = Gemma2ForCausalLM(Gemma2Config(**fields, **heads, final_logit_softcapping=2.0))
    torch.nn.init.normal_(model.model.embed_tokens.weight)
    return model


@pytest.mark.parametrize("piece", [1, 700, 1 << 24])
@pytest.mark.parametrize("kind", ["plain", "capped"])
def test_against_the_models_own_logits(model, capped, kind, piece, monkeypatch):
    monkeypatch.setattr(_logits, "_PIECE", piece)
    model = (model if kind == "plain" else capped).train()
    tokens = np.random.default_rng(0).integers(0, 50, size=(5, 7))
    losses = sequence_losses(model, tokens, batch_size=2)
    assert model.training
    with torch.no_grad():
        logs = model.eval()(torch.from_numpy(tokens)).logits.double().log_softmax(-1).numpy()
    for row in range(5):
        expected = -np.mean([logs[row, at, tokens[row, at + 1]] for at in range(6)])
        assert losses[row] == pytest.approx(expected, rel=1e-5)


def test_what_has_no_loss(model):
    with pytest.raises(UserError, match="a sequence of 65 tokens is longer than the model's 64"):
        sequence_losses(model, np.zeros((1, 65), np.int64))
    for shape in ((0, 5), (3, 1), (4,)):
        with pytest.raises(ValueError, match="tokens: expected one row or more"):
            sequence_losses(model, np.zeros(shape, np.int64))
