"""Logits of a sequence a piece at a time, by the model's own output layers, whatever these do."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from diffattn.evaluation._hooks import replaced_forward

__all__ = ["hidden_states", "logit_pieces"]

_PIECE = 1 << 24  # logits


def hidden_states(model: PreTrainedModel, ids: Tensor) -> Any:
    """What the model without its output layers gives for ids `[B, T]`."""
    return model.base_model(input_ids=ids, use_cache=False)


def logit_pieces(model: PreTrainedModel, ids: Tensor, output: Any) -> Iterator[tuple[slice, Tensor]]:
    """Stretches of positions, and their logits `[B, positions, vocabulary]`.

    Args:
        ids: `[B, T]`.
        output: of `hidden_states`, whose `last_hidden_state` may have been exchanged.
    """
    vocabulary = model.get_output_embeddings().weight.shape[0]
    step = max(1, _PIECE // (len(ids) * vocabulary))
    for first in range(0, ids.shape[1], step):
        where = slice(first, min(first + step, ids.shape[1]))
        part = copy.copy(output)
        part.last_hidden_state = output.last_hidden_state[:, where]
        with replaced_forward(model.base_model, _giving(part)):
            logits = model(input_ids=ids[:, where], use_cache=False).logits
        yield where, logits


def _giving(output: Any) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return output

    return forward
