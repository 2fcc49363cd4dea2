"""The next-token loss of each of many sequences, without the logits of a whole batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from diffattn.evaluation._setting import check_length, device_of, mode

__all__ = ["sequence_losses"]

_PIECE = 1 << 24  # elements of a piece of the logits


def sequence_losses(model: PreTrainedModel, tokens: np.ndarray, batch_size: int = 8) -> np.ndarray:
    """Mean cross-entropy of every token but the first of each row, nats, float64 `[N]`; tokens int64 `[N, T]`.

    The model's mode is put back afterwards.

    Raises:
        UserError: the rows are longer than the model's context.
        ValueError: rows of fewer than two tokens, or none.
    """
    if tokens.ndim != 2 or len(tokens) < 1 or tokens.shape[1] < 2:
        raise ValueError(f"tokens: expected one row or more of two tokens or more, got shape {list(tokens.shape)}")
    check_length(model, tokens.shape[1], "a sequence")
    rows = torch.from_numpy(tokens.astype(np.int64))
    with torch.inference_mode(), mode(model, training=False):
        plain = _output_matrix_is_all(model, rows)
        losses = [_batch(model, batch.to(device_of(model)), plain).cpu() for batch in rows.split(batch_size)]
    return torch.cat(losses).numpy()


def _output_matrix_is_all(model: PreTrainedModel, rows: Tensor) -> bool:
    """Whether the output matrix makes the model's logits, with nothing after it (a softcap, a scale)."""
    ids = rows[:1, :2].to(device_of(model))
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    made, wanted = model.get_output_embeddings()(hidden), model(input_ids=ids, use_cache=False).logits
    return torch.equal(made, wanted)


def _batch(model: PreTrainedModel, batch: Tensor, plain: bool) -> Tensor:
    """Of each row, `[B]`."""
    wanted = batch[:, 1:].flatten()
    pieces = _plain_logits(model, batch) if plain else _whole_logits(model, batch)
    losses, done = [], 0
    for logits in pieces:
        losses.append(cross_entropy(logits.float(), wanted[done : done + len(logits)], reduction="none").double())
        done += len(logits)
    return torch.cat(losses).view(len(batch), -1).mean(1)


def _plain_logits(model: PreTrainedModel, batch: Tensor) -> Iterator[Tensor]:
    hidden = model.base_model(input_ids=batch, use_cache=False).last_hidden_state[:, :-1].flatten(0, 1)
    output = model.get_output_embeddings()
    for piece in hidden.split(max(1, _PIECE // output.weight.shape[0])):
        yield output(piece)


def _whole_logits(model: PreTrainedModel, batch: Tensor) -> Iterator[Tensor]:
    yield model(input_ids=batch, use_cache=False).logits[:, :-1].flatten(0, 1)
