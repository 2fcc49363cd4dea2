"""The next-token loss of each of many sequences, without the logits of a whole batch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from diffattn.evaluation._logits import hidden_states, logit_pieces
from diffattn.evaluation._setting import mode, token_batches

__all__ = ["sequence_losses"]


def sequence_losses(model: PreTrainedModel, tokens: np.ndarray, batch_size: int = 8) -> np.ndarray:
    """Mean cross-entropy of every token but the first of each row, nats, float64 `[N]`; tokens int `[N, T]`.

    The model's mode is put back afterwards.

    Raises:
        UserError: the rows are longer than the model's context, or have tokens that it does not know.
        ValueError: rows of fewer than two tokens, or none.
    """
    if tokens.ndim != 2 or len(tokens) < 1 or tokens.shape[1] < 2:
        raise ValueError(f"tokens: expected one row or more of two tokens or more, got shape {list(tokens.shape)}")
    batches = token_batches(model, tokens, batch_size)
    with torch.inference_mode(), mode(model, training=False):
        return torch.cat([_of_rows(model, batch).cpu() for batch in batches]).numpy()


def _of_rows(model: PreTrainedModel, ids: Tensor) -> Tensor:
    """Of each row of ids `[B, T]`, float64 `[B]`."""
    losses = []
    for where, logits in logit_pieces(model, ids, hidden_states(model, ids)):
        targets = ids[:, where.start + 1 : where.stop + 1]
        kept = logits[:, : targets.shape[1]].float()
        losses.append(cross_entropy(kept.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape))
    return torch.cat(losses, dim=1).double().mean(1)
