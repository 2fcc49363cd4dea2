"""How large lambda is in each differential layer, and how often it has run away."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from diffattn.evaluation._hooks import recording_lambda
from diffattn.evaluation._setting import mode, require_positive, token_batches

__all__ = ["LambdaValuesConfig", "LambdaValuesResult", "LayerLambda", "measure"]


@dataclass(frozen=True, kw_only=True)
class LambdaValuesConfig:
    """How to measure.

    Attributes:
        threshold: absolute values above it are counted.
        batch_size: sequences at once; the result does not depend on it.
    """

    threshold: float = 10.0
    batch_size: int = 1

    def __post_init__(self) -> None:
        require_positive(self, "batch_size")


@dataclass(frozen=True, kw_only=True)
class LayerLambda:
    """One layer.

    Attributes:
        layer: counted from 0.
        values: how many lambdas it has in these sequences: 1 in V1, one for each token and head in V2.
        mean: of lambda, with its sign.
        mean_absolute, largest_absolute: of its absolute value.
        above: how many absolute values are above the threshold.
    """

    layer: int
    values: int
    mean: float
    mean_absolute: float
    largest_absolute: float
    above: int


@dataclass(frozen=True, kw_only=True)
class LambdaValuesResult:
    """What was measured: how, the sum of `above`, the largest of all, and one entry a layer; none without lambda."""

    config: LambdaValuesConfig
    above: int
    largest_absolute: float | None
    layers: tuple[LayerLambda, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def measure(model: PreTrainedModel, tokens: np.ndarray, config: LambdaValuesConfig) -> LambdaValuesResult:
    """Run the sequences through the model and read lambda.

    Args:
        model: of this package; any other, and one without lambda, has no layers in the result.
        tokens: int `[N, T]`.
        config: threshold and batch size.

    Raises:
        UserError: sequences longer than the model's positions, or tokens that it does not know.
    """
    found: dict[int, list[Tensor]] = {}
    batches = token_batches(model, tokens, config.batch_size)
    with torch.inference_mode(), mode(model, training=False), recording_lambda(model) as layers:
        for batch in batches if layers else []:
            model.base_model(input_ids=batch, use_cache=False)
            for layer in layers:
                lam = layer.recorded_lambda
                if lam is None or (lam.ndim == 0 and layer.layer_idx in found):
                    continue
                found.setdefault(layer.layer_idx, []).append(lam.flatten().double().cpu())
    entries = tuple(_entry(index, torch.cat(values), config.threshold) for index, values in sorted(found.items()))
    return LambdaValuesResult(
        config=config,
        above=sum(entry.above for entry in entries),
        largest_absolute=max((entry.largest_absolute for entry in entries), default=None),
        layers=entries,
    )


def _entry(layer: int, values: Tensor, threshold: float) -> LayerLambda:
    absolute = values.abs()
    return LayerLambda(
        layer=layer,
        values=len(values),
        mean=values.mean().item(),
        mean_absolute=absolute.mean().item(),
        largest_absolute=absolute.max().item(),
        above=int((absolute > threshold).sum()),
    )
