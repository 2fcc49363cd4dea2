"""Milliseconds a token of greedy decoding with the cache, one sequence at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

from diffattn.data import PreparedData
from diffattn.errors import UserError
from diffattn.evaluation._setting import check_length, clock, device_of, mode, require_positive

__all__ = ["DecodingConfig", "measure"]


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """What to decode.

    Attributes:
        prompt_length: tokens of the split's start that fill the cache first, untimed.
        new_tokens: timed steps, one token each.
        split: where the prompt comes from.
    """

    prompt_length: int = 64
    new_tokens: int = 32
    split: str = "test"

    def __post_init__(self) -> None:
        require_positive(self, "prompt_length", "new_tokens")


def measure(model: PreTrainedModel, data: PreparedData, config: DecodingConfig) -> float:
    """One sample of milliseconds a token: greedy steps at batch 1, after the prompt and one untimed step.

    The model is called directly, so that nothing of `generate`'s own cost is in the number; end of text does
    not stop it. To compare models, take samples of each in alternation.

    Raises:
        UserError: the split is shorter than the prompt, or the model has too few positions.
    """
    check_length(model, config.prompt_length + config.new_tokens + 1, "a prompt with its new tokens")
    prompt = _prompt(data, config).to(device_of(model))
    with torch.inference_mode(), mode(model, training=False):
        token, cache = _step(model, prompt, {})
        token, cache = _step(model, token, cache)
        start = clock(prompt.device)
        for _ in range(config.new_tokens):
            token, cache = _step(model, token, cache)
        return (clock(prompt.device) - start) / config.new_tokens * 1000


def _prompt(data: PreparedData, config: DecodingConfig) -> torch.Tensor:
    tokens = data.tokens(config.split)[: config.prompt_length]
    if len(tokens) < config.prompt_length:
        raise UserError(
            f"the {config.split} split has {len(tokens)} tokens, less than a prompt of "
            f"{config.prompt_length}: give more text or a shorter prompt"
        )
    return torch.from_numpy(tokens.astype(np.int64))[None]


def _step(
    model: PreTrainedModel, ids: torch.Tensor, cache: dict[str, object]
) -> tuple[torch.Tensor, dict[str, object]]:
    """The likeliest next token `[1, 1]`, and the cache under the name that this Transformers has for it."""
    output = model(input_ids=ids, use_cache=True, **cache)
    name = "cache" if "cache" in output else "past_key_values"
    return output.logits[:, -1:].argmax(dim=-1), {name: output[name]}
