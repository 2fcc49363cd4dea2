"""A cache that grows in place."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

__all__ = ["GrowingCache", "GrowingLayer"]


class GrowingLayer(DynamicLayer):
    """One layer's keys and values at the front of a buffer that doubles when it is full.

    `DynamicLayer` concatenates, which writes and reads the whole cache at every token; here a token costs its own
    bytes. Where gradients are recorded it concatenates too, since autograd forbids writing in place.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._buffers: list[Tensor | None] = [None, None]

    def __copy__(self) -> GrowingLayer:
        """A copy that shares what is held so far, and grows in a buffer of its own."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__, _buffers=[None, None])
        return copied

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Arguments and result as in `transformers.DynamicLayer`."""
        if torch.is_grad_enabled():
            return super().update(key_states, value_states, *args, **kwargs)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.keys = self._append(0, self.keys, key_states)
        self.values = self._append(1, self.values, value_states)
        return self.keys, self.values

    def _append(self, index: int, held: Tensor, new: Tensor) -> Tensor:
        start = held.shape[-2] if held.numel() else 0
        end = start + new.shape[-2]
        buffer = self._buffers[index]
        if buffer is None or not _is_front_of(held, buffer) or not _writable(buffer) or end > buffer.shape[-2]:
            buffer = new.new_empty(*new.shape[:-2], max(2 * end, 64), new.shape[-1])
            if start:
                buffer[..., :start, :] = held
            self._buffers[index] = buffer
        buffer[..., start:end, :] = new
        return buffer[..., :end, :]


def _writable(buffer: Tensor) -> bool:
    return torch.is_inference_mode_enabled() or not buffer.is_inference()


def _is_front_of(held: Tensor, buffer: Tensor) -> bool:
    """Whether `held` is a view of the buffer's front: beam search, for one, makes it a tensor of its own."""
    same_start = held.numel() > 0 and held.data_ptr() == buffer.data_ptr()
    return same_start and held.shape[:-2] == buffer.shape[:-2] and held.stride() == buffer.stride()


class GrowingCache(Cache):
    """A cache of `GrowingLayer`s for `model.generate(..., cache=GrowingCache())` (`past_key_values` before 5.24)."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=GrowingLayer)
