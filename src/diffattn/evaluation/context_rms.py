"""The size of each attention layer's context: what its heads bring, before anything norms or projects it."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from diffattn.evaluation._hooks import attention_layers, reading_inputs, reading_outputs
from diffattn.evaluation._setting import mode, require_positive, token_batches

__all__ = ["ContextRmsConfig", "ContextRmsResult", "LayerContext", "measure"]


@dataclass(frozen=True, kw_only=True)
class ContextRmsConfig:
    """How to measure: `batch_size` sequences at once, on which the result does not depend."""

    batch_size: int = 1

    def __post_init__(self) -> None:
        require_positive(self, "batch_size")


@dataclass(frozen=True, kw_only=True)
class LayerContext:
    """One layer: RMS over the channels of all heads together, a token at a time.

    Attributes:
        layer: counted from 0 among the attention layers.
        mean, largest: over the tokens whose context is finite; None where there are none.
        value_rms: of all channels and tokens of the values, finite ones; None where no `v_proj` gives them. The ranges
            that are derived for the context (softmax [1/sqrt(n), 1), V2 (0, sqrt 2), gated (0, 1), for uncorrelated
            values) are of its ratio to this.
        not_finite: tokens whose context is not.
    """

    layer: int
    mean: float | None
    largest: float | None
    value_rms: float | None
    not_finite: int


@dataclass(frozen=True, kw_only=True)
class ContextRmsResult:
    """What was measured: how, of how many tokens, the largest of all layers, and one entry a layer."""

    config: ContextRmsConfig
    tokens: int
    largest: float | None
    layers: tuple[LayerContext, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def measure(model: PreTrainedModel, tokens: np.ndarray, config: ContextRmsConfig) -> ContextRmsResult:
    """Run the sequences through the model and read each context.

    It is what the output projection takes, which in V2 is behind the subtraction, in a gated layer behind the gate, and
    in V1 without its norm behind the subtraction; in V1 with the norm it is what the norm takes.

    Args:
        model: a causal language model whose attention layers have an `o_proj`.
        tokens: int `[N, T]`.
        config: the batch size.

    Raises:
        UserError: sequences longer than the model's positions, tokens that it does not know, or a model without
            `o_proj`.
    """
    layers = attention_layers(model)
    contexts, values = [_Sizes() for _ in layers], [_Sizes() for _ in layers]
    batches = token_batches(model, tokens, config.batch_size)
    with torch.inference_mode(), mode(model, training=False), ExitStack() as hooks:
        for layer, context, value in zip(layers, contexts, values, strict=True):
            hooks.enter_context(reading_inputs([_taker(layer)], context.add))
            if isinstance(projection := getattr(layer, "v_proj", None), nn.Module):
                hooks.enter_context(reading_outputs([projection], value.add))
        for batch in batches:
            model.base_model(input_ids=batch, use_cache=False)
    entries = tuple(_entry(i, context, value) for i, (context, value) in enumerate(zip(contexts, values, strict=True)))
    largest = [entry.largest for entry in entries if entry.largest is not None]
    return ContextRmsResult(config=config, tokens=tokens.size, largest=max(largest, default=None), layers=entries)


def _taker(layer: nn.Module) -> nn.Module:
    """What takes the context: the norm of V1's heads where there is one."""
    norm = getattr(layer, "head_norm", None)
    return norm if isinstance(norm, nn.Module) else layer.get_submodule("o_proj")


class _Sizes:
    """The mean squares of the tokens of one layer."""

    def __init__(self) -> None:
        self._squares: list[Tensor] = []

    def add(self, number: int, x: Tensor) -> None:
        """Take `[B, T, ...]`."""
        self._squares.append(x.flatten(2).double().square().mean(-1).flatten().cpu())

    def finite(self) -> tuple[Tensor, int]:
        """The finite ones, and how many others there are."""
        squares = torch.cat(self._squares) if self._squares else torch.empty(0)
        kept = squares[torch.isfinite(squares)]
        return kept, len(squares) - len(kept)


def _entry(layer: int, context: _Sizes, value: _Sizes) -> LayerContext:
    (squares, not_finite), (of_values, _) = context.finite(), value.finite()
    some = len(squares) > 0
    return LayerContext(
        layer=layer,
        mean=squares.sqrt().mean().item() if some else None,
        largest=math.sqrt(squares.max().item()) if some else None,
        value_rms=math.sqrt(of_values.mean().item()) if len(of_values) else None,
        not_finite=not_finite,
    )
