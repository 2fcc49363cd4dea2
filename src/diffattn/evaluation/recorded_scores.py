"""The scores of the last query, layer by layer, out of any causal model that uses transformers' attention interface.

Under the name `diffattn_probe` an attention function hands out the last row of the scores and otherwise does what
transformers' `sdpa` does, with a mask that is a function of positions: neither a map nor a mask of T x T is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from diffattn.errors import UserError
from diffattn.models.attention import DiffTransformerAttention

__all__ = ["IMPLEMENTATION", "LazyMask", "Receiver", "recording", "row_scores"]

IMPLEMENTATION = "diffattn_probe"

#: Takes an attention layer and its scores `[B, query heads, T]`, float32, -inf for keys that are not seen.
Receiver = Callable[[nn.Module, Tensor], None]

_BLOCK = 1 << 23  # elements of the mask, or of the scores where there are any, of a block of query rows
_UNKNOWN = {"s_aux": "learned sinks", "position_bias": "a bias by position"}
_receiver: ContextVar[Receiver | None] = ContextVar("diffattn_probe_receiver", default=None)


@dataclass(frozen=True, eq=False)
class LazyMask:
    """Arguments of transformers' `sdpa_mask`, kept until some rows are asked for."""

    arguments: dict[str, Any]

    def stretch(self, first: int, end: int) -> slice:
        """Keys out of which queries first to end - 1 see none: those of the window where it decides, else all."""
        length, window = self.arguments["kv_length"], self.arguments.get("local_size")
        if window is None or length != self.arguments["q_length"] or not self.arguments["allow_is_causal_skip"]:
            return slice(0, length)
        return slice(max(0, first - window + 1), end)

    def rows(self, first: int, end: int, keys: slice) -> Tensor:
        """True where queries first to end - 1 see one of the keys, bool `[B, 1, end - first, keys]`."""
        moved = {
            "q_length": end - first,
            "q_offset": self.arguments["q_offset"] + first,
            "kv_length": keys.stop - keys.start,
            "kv_offset": self.arguments["kv_offset"] + keys.start,
            "allow_is_causal_skip": False,
        }
        return sdpa_mask(**{**self.arguments, **moved})


def _mask(**arguments: Any) -> LazyMask | None:
    """A mask function of transformers; None for a plain causal mask, as from `sdpa_mask`."""
    arguments = {"q_offset": 0, "kv_offset": 0, "allow_is_causal_skip": True, **arguments}
    window = arguments.get("local_size") or arguments["kv_length"] + 1
    whole = arguments["q_length"] == arguments["kv_length"] < window and arguments.get("attention_mask") is None
    return None if whole and arguments["allow_is_causal_skip"] else LazyMask(arguments)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: LazyMask | Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """An attention function of transformers; query `[B, heads, T, D]`, key and value `[B, KV heads, T, D]`."""
    for name, meaning in _UNKNOWN.items():
        if kwargs.get(name) is not None:
            raise UserError(f"this model's attention has {meaning} ({name}), which cannot be measured here")
    length = query.shape[2]
    if (receive := _receiver.get()) is not None:
        seen = _rows(attention_mask, length - 1, length, slice(0, key.shape[2]))
        receive(module, row_scores(query[:, :, -1:], key, seen, scaling, softcap)[:, :, 0])
    if softcap is None and not isinstance(attention_mask, LazyMask):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    heads = 1 if softcap is None else query.shape[1]  # sdpa makes no scores, only its mask, which heads share
    step = max(1, _BLOCK // (query.shape[0] * heads * key.shape[2]))
    blocks = []
    for first in range(0, length, step):
        end = min(first + step, length)
        keys = _stretch(attention_mask, first, end, key.shape[2])
        rows = _rows(attention_mask, first, end, keys)
        if rows is None:
            positions = torch.arange(end, device=query.device)
            rows = (positions <= positions[first:, None])[None, None]
        blocks.append(
            _block(module, query[:, :, first:end], key[:, :, keys], value[:, :, keys], rows, scaling, softcap)
        )
    return torch.cat(blocks, dim=1), None


def row_scores(query: Tensor, key: Tensor, seen: Tensor | None, scaling: float | None, softcap: float | None) -> Tensor:
    """What softmax takes of some queries, `[B, heads, rows, Tk]`, float32, -inf for unseen keys.

    Args:
        query: `[B, heads, rows, D]`.
        key: `[B, KV heads, Tk, D]`, KV heads dividing heads.
        seen: `[B, 1 or heads, rows, Tk]`, bool or added to the scores; None where all keys are seen.
        scaling: of q.k; None for D^-0.5.
        softcap: c, where the scores are bounded by c tanh(score / c).
    """
    width, heads = query.shape[-1], query.shape[1]
    grouped = query.float().unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    scores = (grouped @ key.float().transpose(2, 3)).mul(width**-0.5 if scaling is None else scaling)
    scores = scores.view(query.shape[0], heads, -1, key.shape[2])
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if seen is None:
        return scores
    scores = scores if seen.dtype == torch.bool else scores + seen
    return scores.masked_fill(~_is_seen(seen), -torch.inf)


def _is_seen(rows: Tensor) -> Tensor:
    """Bool from a bool mask or an additive one, whose hidden keys have the dtype's lowest number or -inf."""
    return rows if rows.dtype == torch.bool else rows > torch.finfo(rows.dtype).min / 2


def _stretch(mask: LazyMask | Tensor | None, first: int, end: int, length: int) -> slice:
    if isinstance(mask, LazyMask):
        return mask.stretch(first, end)
    return slice(0, end if mask is None else length)


def _rows(mask: LazyMask | Tensor | None, first: int, end: int, keys: slice) -> Tensor | None:
    """The mask of queries first to end - 1 and some keys; None where there is no mask."""
    if mask is None:
        return None
    return mask.rows(first, end, keys) if isinstance(mask, LazyMask) else mask[..., first:end, keys]


def _block(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rows: Tensor,
    scaling: float | None,
    softcap: float | None,
) -> Tensor:
    """Attention of some query rows, `[B, rows, heads, D]`."""
    if softcap is None:
        return sdpa_attention_forward(module, query, key, value, rows, scaling=scaling)[0]
    weights = row_scores(query, key, rows, scaling, softcap).softmax(-1).to(value.dtype)
    grouped = weights.unflatten(1, (value.shape[1], -1)).flatten(2, 3) @ value
    return grouped.view(*query.shape[:3], -1).transpose(1, 2)


AttentionInterface.register(IMPLEMENTATION, _attention)
AttentionMaskInterface.register(IMPLEMENTATION, _mask)


@contextmanager
def recording(model: PreTrainedModel, receive: Receiver) -> Iterator[None]:
    """Inside, a forward of the model calls `receive` once for each attention layer, in their order.

    A layer of this package with two maps a head gives its physical heads (signal and noise map of a pair adjacent),
    and has its lambda in `recorded_lambda` when `receive` is called. Afterwards the model is what it was.

    Raises:
        UserError: the model's attention does not go through transformers' attention interface, so that nothing came.
    """
    implementations = [(config, config._attn_implementation_internal) for config in _configurations(model)]
    layers: set[nn.Module] = set()

    def noting(module: nn.Module, scores: Tensor) -> None:
        layers.add(module)
        receive(module, scores)

    token = _receiver.set(noting)
    try:
        with _recorded_lambda(model):
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


@contextmanager
def _recorded_lambda(model: nn.Module) -> Iterator[None]:
    layers = [module for module in model.modules() if isinstance(module, DiffTransformerAttention)]
    before = [(layer.records_lambda, layer.recorded_lambda) for layer in layers]
    for layer in layers:
        layer.records_lambda = True
    try:
        yield
    finally:
        for layer, (records, recorded) in zip(layers, before, strict=True):
            layer.records_lambda, layer.recorded_lambda = records, recorded


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
