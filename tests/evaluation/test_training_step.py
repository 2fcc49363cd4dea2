from __future__ import annotations

import pytest
import torch
from transformers import LlamaForCausalLM

from diffattn.data import PreparedData
from diffattn.errors import UserError
from diffattn.evaluation.training_step import TrainingStepConfig, measure


def test_one_forward_and_one_backward_of_the_batch(model: LlamaForCausalLM, data: PreparedData) -> None:
    seen: list[torch.Tensor] = []
    modes: list[bool] = []
    gradients: list[torch.Size] = []
    model.model.embed_tokens.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.model.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    model.model.embed_tokens.weight.register_hook(lambda gradient: gradients.append(gradient.shape))
    model.eval()
    assert measure(model, data, TrainingStepConfig(context=6, batch_size=4)) > 0
    assert [ids.flatten().tolist() for ids in seen] == [data.tokens("train")[:24].tolist()]
    assert seen[0].shape == (4, 6)
    assert modes == [True]
    assert gradients == [model.model.embed_tokens.weight.shape]
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_too_long(model: LlamaForCausalLM, data: PreparedData) -> None:
    with pytest.raises(UserError, match="context of 65 tokens is longer"):
        measure(model, data, TrainingStepConfig(context=65))
    with pytest.raises(UserError, match="less than a batch of 64000: give more text"):
        measure(model, data, TrainingStepConfig(context=64, batch_size=1000))


@pytest.mark.parametrize("fields", [{"context": 0}, {"batch_size": 0}])
def test_config_is_validated(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        TrainingStepConfig(**fields)
