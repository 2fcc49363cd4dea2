"""The largest attention logits and hidden states, as in Table 5 of Differential Transformer (arXiv:2410.05258)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from diffattn.evaluation._hooks import decoder_layers, reading_outputs
from diffattn.evaluation._setting import mode, require_positive, token_batches
from diffattn.evaluation.magnitudes import Magnitudes, RunningMagnitudes, merged
from diffattn.evaluation.recorded_scores import recording_rows

__all__ = ["OutliersConfig", "OutliersResult", "measure"]


@dataclass(frozen=True, kw_only=True)
class OutliersConfig:
    """How to measure.

    Attributes:
        ranks: which of the largest values to give, 1 for the largest.
        batch_size: sequences at once; the result does not depend on it.
        every: take the logits of only each such query, counted back from the last: their number, and the time, grow
            with the square of the length. The largest is then that of these queries.
    """

    ranks: tuple[int, ...] = (1, 2, 3, 10, 100)
    batch_size: int = 1
    every: int = 1

    def __post_init__(self) -> None:
        require_positive(self, "batch_size", "every")
        if not self.ranks or min(self.ranks) < 1:
            raise ValueError(f"OutliersConfig: ranks must be one or more, each at least 1, not {self.ranks}")


@dataclass(frozen=True, kw_only=True)
class OutliersResult:
    """What was measured, of absolute values.

    Attributes:
        config: how.
        tokens: how many.
        logits: of all attention layers, what softmax takes: scaled, after a softcap, of the keys that a query sees, of
            every query map of every head (two a head in differential attention). A learned sink's logit is none.
        hidden: of all decoder layers, the residual stream behind each.
        logits_by_layer, hidden_by_layer: one entry a layer.
    """

    config: OutliersConfig
    tokens: int
    logits: Magnitudes
    hidden: Magnitudes
    logits_by_layer: tuple[Magnitudes, ...]
    hidden_by_layer: tuple[Magnitudes, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def measure(model: PreTrainedModel, tokens: np.ndarray, config: OutliersConfig) -> OutliersResult:
    """Run the sequences through the model and keep the largest values and a histogram of each layer.

    Memory grows with the length of a sequence, not with its square. The model's mode and attention implementation are
    put back afterwards.

    Args:
        model: a causal language model whose attention goes through transformers' attention interface.
        tokens: int `[N, T]`.
        config: ranks, batch size, which queries.

    Raises:
        UserError: sequences longer than the model's positions, tokens that it does not know, or a model whose scores or
            layers cannot be read.
    """
    most = max(config.ranks)
    logits: dict[nn.Module, RunningMagnitudes] = defaultdict(lambda: RunningMagnitudes(most))
    layers = decoder_layers(model)
    hidden = [RunningMagnitudes(most) for _ in layers]

    def receive(layer: nn.Module, scores: Tensor) -> None:
        logits[layer].add(scores, masked=True)

    batches = token_batches(model, tokens, config.batch_size)
    with (
        torch.inference_mode(),
        mode(model, training=False),
        recording_rows(model, receive, every=config.every),
        reading_outputs(layers, lambda number, states: hidden[number].add(states)),
    ):
        for batch in batches:
            model.base_model(input_ids=batch, use_cache=False)
    return _result(config, tokens.size, list(logits.values()), hidden)


def _result(
    config: OutliersConfig, tokens: int, logits: list[RunningMagnitudes], hidden: list[RunningMagnitudes]
) -> OutliersResult:
    most, ranks = max(config.ranks), config.ranks
    return OutliersResult(
        config=config,
        tokens=tokens,
        logits=merged(logits, most).result(ranks),
        hidden=merged(hidden, most).result(ranks),
        logits_by_layer=tuple(one.result(ranks) for one in logits),
        hidden_by_layer=tuple(one.result(ranks) for one in hidden),
    )
