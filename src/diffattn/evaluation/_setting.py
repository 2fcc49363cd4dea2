"""What every measure needs of a model: its mode set and put back, its device, a clock that waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from diffattn.errors import UserError

__all__ = [
    "check_length",
    "check_tokens",
    "check_vocabulary",
    "clock",
    "device_of",
    "mode",
    "require_positive",
    "row_generator",
    "token_batches",
]


@contextmanager
def mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Set training or evaluation mode, then give every module back the mode that it had."""
    before = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        yield
    finally:
        for module, was_training in before.items():
            module.training = was_training


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's first parameter."""
    return next(model.parameters()).device


def clock(device: torch.device) -> float:
    """Seconds, read once everything queued on the device has been done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()


def require_positive(config: object, *names: str) -> None:
    """Raise a ValueError that names the first of these fields that is below 1."""
    for name in names:
        value = getattr(config, name)
        if value < 1:
            raise ValueError(f"{type(config).__name__}: {name} must be at least 1, not {value}")


def check_length(model: nn.Module, length: int, what: str) -> None:
    """Raise a UserError where `length` tokens are more than the model has positions for."""
    longest = getattr(model.config, "max_position_embeddings", None)
    if longest is not None and length > longest:
        raise UserError(f"{what} of {length} tokens is longer than the model's {longest}: use at most {longest}")


def check_tokens(model: PreTrainedModel, tokens: np.ndarray) -> None:
    """Raise a UserError where the model has no positions for, or does not know, some of the tokens, int `[N, T]`."""
    if tokens.ndim != 2 or not np.issubdtype(tokens.dtype, np.integer) or not tokens.size:
        raise ValueError(f"tokens: expected integers, shape [N, T], got {tokens.dtype}, shape {list(tokens.shape)}")
    check_length(model, tokens.shape[1], "a sequence")
    check_vocabulary(model, tokens)


def check_vocabulary(model: PreTrainedModel, tokens: np.ndarray) -> None:
    """Raise a UserError where the model does not know some of the tokens."""
    known = model.get_input_embeddings().weight.shape[0]
    if tokens.min() < 0 or tokens.max() >= known:
        raise UserError(
            f"the model knows {known:,} tokens, the corpus has others: encode it with the model's own tokenizer"
        )


def token_batches(model: PreTrainedModel, tokens: np.ndarray, batch_size: int) -> list[Tensor]:
    """The sequences, int `[N, T]`, as int64 `[at most batch_size, T]` on the model's device, once checked."""
    check_tokens(model, tokens)
    return list(torch.from_numpy(tokens.astype(np.int64)).to(device_of(model)).split(batch_size))


def row_generator(seed: int, row: int) -> torch.Generator:
    """For what is drawn for one row of the data, whatever batch it is in."""
    state = np.random.SeedSequence([seed, row]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> 1))
