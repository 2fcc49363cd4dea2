from __future__ import annotations

import pytest
import torch
from transformers import LlamaForCausalLM

from diffattn.data import PreparedData
from diffattn.errors import UserError
from diffattn.evaluation import decoding
from diffattn.evaluation.decoding import DecodingConfig, measure


def test_steps_are_those_of_generate(model: LlamaForCausalLM, data: PreparedData, monkeypatch) -> None:
    fed: list[torch.Tensor] = []
    original = decoding._step

    def step(model, ids, cache):
        fed.append(ids)
        return original(model, ids, cache)

    monkeypatch.setattr(decoding, "_step", step)
    model.train()
    assert measure(model, data, DecodingConfig(prompt_length=5, new_tokens=6)) > 0
    assert model.training
    assert [ids.shape[1] for ids in fed] == [5] + [1] * 7
    assert fed[0][0].tolist() == data.tokens("test")[:5].tolist()
    model.generation_config.eos_token_id = None
    mask = torch.ones_like(fed[0])
    generated = model.eval().generate(fed[0], attention_mask=mask, max_new_tokens=7, do_sample=False)
    assert generated[0].tolist() == torch.cat(fed, dim=1)[0].tolist()


def test_milliseconds_of_timed_steps_only(model: LlamaForCausalLM, data: PreparedData, monkeypatch) -> None:
    now = [0.0]
    original = decoding._step

    def step(model, ids, cache):
        now[0] += 100 if ids.shape[1] > 1 else 0.25
        return original(model, ids, cache)

    monkeypatch.setattr(decoding, "_step", step)
    monkeypatch.setattr(decoding, "clock", lambda _: now[0])
    assert measure(model, data, DecodingConfig(prompt_length=5, new_tokens=4)) == 250


def test_too_long(model: LlamaForCausalLM, data: PreparedData) -> None:
    with pytest.raises(UserError, match="of 65 tokens is longer than the model's 64"):
        measure(model, data, DecodingConfig(prompt_length=32, new_tokens=32))
    model.config.max_position_embeddings = 10**6
    with pytest.raises(UserError, match="give more text or a shorter prompt"):
        measure(model, data, DecodingConfig(prompt_length=100_000))


@pytest.mark.parametrize("fields", [{"prompt_length": 0}, {"new_tokens": 0}])
def test_config_is_validated(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        DecodingConfig(**fields)
