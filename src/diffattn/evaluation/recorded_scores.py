"""Attention scores, layer by layer, out of any causal model that uses transformers' attention interface.

Under the name `diffattn_probe` an attention function hands out the scores of chosen queries, or of all queries a block
at a time, and otherwise does what transformers' `sdpa` does, with a mask that is a function of positions: neither a map
nor a mask of T x T is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface

from diffattn.errors import UserError
from diffattn.evaluation._hooks import recording_lambda
from diffattn.evaluation._lazy_mask import LazyMask, Mask, probe_mask
from diffattn.evaluation._row_attention import AttentionCall, row_scores

__all__ = [
    "IMPLEMENTATION",
    "Receiver",
    "Taker",
    "learned_sinks",
    "recording",
    "recording_rows",
    "row_scores",
    "taking",
]

IMPLEMENTATION = "diffattn_probe"

#: Takes an attention layer and scores of it, float32, -inf for keys that are not seen.
Receiver = Callable[[nn.Module, Tensor], None]
#: Takes one call of an attention layer; may give another to be done in its place, else None.
Taker = Callable[[AttentionCall], AttentionCall | None]

_BLOCK = 1 << 23  # elements of the mask, or of the scores where there are any, of a block of query rows
_receiver: ContextVar[Taker | None] = ContextVar("diffattn_probe_receiver", default=None)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """An attention function of transformers; query `[B, heads, T, D]`, key and value `[B, KV heads, T, D]`."""
    _check_known(module, s_aux, kwargs.get("position_bias"))
    call = AttentionCall(module, query, key, value, attention_mask, scaling, softcap, s_aux)
    if (take := _receiver.get()) is not None:
        call = take(call) or call
    if not call.is_explicit and not isinstance(attention_mask, LazyMask):
        given = (call.query, call.key, call.value, attention_mask)
        return sdpa_attention_forward(module, *given, scaling=scaling, **kwargs)
    # sdpa makes no scores, only its mask, which heads share.
    step, length = _rows_of_a_block(call, query.shape[1] if call.is_explicit else 1), query.shape[2]
    blocks = [call.outputs_of_rows(first, min(first + step, length)) for first in range(0, length, step)]
    return torch.cat(blocks, dim=1), None


def _check_known(module: nn.Module, s_aux: Tensor | None, position_bias: Tensor | None) -> None:
    unknown = {
        "learned sinks that its layer does not hold (s_aux)": s_aux is not learned_sinks(module),
        "a bias by position (position_bias)": position_bias is not None,
    }
    for meaning, is_there in unknown.items():
        if is_there:
            raise UserError(f"this model's attention has {meaning}, which cannot be measured here")


def _rows_of_a_block(call: AttentionCall, heads: int) -> int:
    return max(1, _BLOCK // (call.query.shape[0] * heads * call.key.shape[2]))


def learned_sinks(layer: nn.Module) -> Tensor | None:
    """Logits `[heads]` that take part in a layer's softmax like keys without values; None where it has none."""
    return getattr(layer, "sinks", None)


AttentionInterface.register(IMPLEMENTATION, _attention)
AttentionMaskInterface.register(IMPLEMENTATION, probe_mask)


@contextmanager
def recording(model: PreTrainedModel, receive: Receiver, queries: Tensor | None = None) -> Iterator[None]:
    """Inside, a forward of the model calls `receive` once for each attention layer, in their order.

    A layer of this package with two maps a head gives its physical heads (signal and noise map of a pair adjacent),
    and has its lambda in `recorded_lambda` when `receive` is called. `learned_sinks(layer)` take part in the softmax
    of what is received. Afterwards the model is what it was.

    Args:
        queries: positions int64 `[B, Q]` for the batch rows of the forward, whose scores come as `[B, heads, Q, T]`;
            None for the last position of each row alone, whose scores come as `[B, heads, T]`.

    Raises:
        UserError: the model's attention does not go through transformers' attention interface, so that nothing came.
        ValueError: at the forward, queries that are not positions of its rows.
    """

    def last(call: AttentionCall) -> None:
        position = torch.full((call.query.shape[0], 1), call.query.shape[2] - 1, device=call.query.device)
        receive(call.module, call.scores_of(position)[:, :, 0])

    def chosen(wanted: Tensor, call: AttentionCall) -> None:
        _check_queries(wanted, *call.query.shape[::2])
        receive(call.module, call.scores_of(wanted.to(call.query.device)))

    with taking(model, last if queries is None else partial(chosen, queries)):
        yield


@contextmanager
def recording_rows(model: PreTrainedModel, receive: Receiver, *, every: int = 1) -> Iterator[None]:
    """As `recording`, for all queries: each layer calls `receive` for one block of rows after the other.

    Scores come as `[B, heads, rows, keys]`, of keys that some of the rows see, so that no block has more than about
    eight million scores.

    Args:
        every: hand out only each such query, counted back from the last.
    """

    def rows(call: AttentionCall) -> None:
        length = call.query.shape[2]
        step = every * _rows_of_a_block(call, call.query.shape[1])
        for first in range((length - 1) % every, length, step):
            receive(call.module, call.scores_of_rows(first, min(first + step, length), every))

    if every < 1:
        raise ValueError(f"every: expected 1 or more, got {every}")
    with taking(model, rows):
        yield


def _check_queries(queries: Tensor, batch: int, length: int) -> None:
    if queries.ndim != 2 or len(queries) != batch or queries.min() < 0 or queries.max() >= length:
        raise ValueError(
            f"queries: expected positions from 0 to {length - 1}, shape [{batch}, Q], got "
            f"{queries.min()} to {queries.max()}, shape {list(queries.shape)}"
        )


@contextmanager
def taking(model: PreTrainedModel, take: Taker) -> Iterator[None]:
    """Inside, a forward of the model hands every attention call to `take`; raises and ends as `recording`."""
    implementations = [(config, config._attn_implementation_internal) for config in _configurations(model)]
    layers: set[nn.Module] = set()

    def noting(call: AttentionCall) -> AttentionCall | None:
        layers.add(call.module)
        return take(call)

    token = _receiver.set(noting)
    try:
        with recording_lambda(model):
            model.set_attn_implementation(IMPLEMENTATION)
            yield
        if not layers:
            raise UserError(
                f"the attention of {type(model).__name__} does not go through transformers' attention interface: "
                "its scores cannot be recorded"
            )
    finally:
        _receiver.reset(token)
        for config, implementation in implementations:
            config._attn_implementation_internal = implementation


def _configurations(model: PreTrainedModel) -> list[Any]:
    """The configurations of the model and of the models inside it, each once."""
    pending = [module.config for module in model.modules() if isinstance(module, PreTrainedModel)]
    found: dict[int, Any] = {}
    while pending:
        config = pending.pop()
        if id(config) not in found:
            found[id(config)] = config
            pending += [part for name in config.sub_configs if (part := getattr(config, name, None)) is not None]
    return list(found.values())
