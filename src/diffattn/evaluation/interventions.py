"""Parts of a differential model switched off for the time of a block, for all heads or some.

Each wraps `project` of the layers concerned, so that it holds with every backend and attention implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from diffattn.errors import UserError
from diffattn.evaluation._setting import mode, token_batches
from diffattn.models.attention import DiffTransformerAttention
from diffattn.nn.layer import Projected

__all__ = [
    "Heads",
    "LambdaMeans",
    "differential_layers",
    "full_lambda",
    "lambda_mean",
    "lambda_zero",
    "mean_lambda",
    "uniform_noise_map",
]

#: (layer, output head), both counted from 0.
Heads = Collection[tuple[int, int]]
#: From a layer's projections and the heads to change, bool `[H]`, to what it is to use in their place.
_Change = Callable[[DiffTransformerAttention, Projected, Tensor], Projected]


class LambdaMeans(NamedTuple):
    """What `mean_lambda` finds.

    Attributes:
        means: layer to its heads' mean lambda over tokens, float64 `[H]`.
        by_token: whether some layer has a lambda for each token; else the mean changes nothing.
    """

    means: dict[int, Tensor]
    by_token: bool


def differential_layers(model: nn.Module) -> list[DiffTransformerAttention]:
    """The layers with two maps a head, in order.

    Raises:
        UserError: there is none.
    """
    layers = [m for m in model.modules() if isinstance(m, DiffTransformerAttention) and m.MAPS == 2]
    if not layers:
        raise UserError(
            f"{type(model).__name__} has no differential attention, of which a part could be switched off: "
            "give a model with attention v1 or v2"
        )
    return layers


@contextmanager
def lambda_zero(model: PreTrainedModel, heads: Heads | None = None) -> Iterator[None]:
    """Inside, lambda is 0: what remains is the signal map alone.

    V1's norm and its factor (1 - lambda_init) stay as they are.

    Args:
        heads: (layer, head) of those to change; None for all.

    Raises:
        UserError: the model has no differential attention.
        ValueError: a head that it does not have.
    """

    def change(_: DiffTransformerAttention, projected: Projected, chosen: Tensor) -> Projected:
        lam = full_lambda(projected)
        return projected._replace(extra=lam.masked_fill(chosen[:, None], 0.0))

    with _changed(model, heads, change):
        yield


@contextmanager
def lambda_mean(model: PreTrainedModel, means: Mapping[int, Tensor], heads: Heads | None = None) -> Iterator[None]:
    """Inside, a head's lambda is the same for every token: `means` of its layer `[H]`, as `mean_lambda` gives them.

    Where lambda is one number for all tokens anyway (V1) this changes nothing but rounding. Errors as in `lambda_zero`.
    """

    def change(layer: DiffTransformerAttention, projected: Projected, chosen: Tensor) -> Projected:
        lam = full_lambda(projected)
        return projected._replace(extra=torch.where(chosen[:, None], means[layer.layer_idx].to(lam)[:, None], lam))

    with _changed(model, heads, change):
        yield


@contextmanager
def uniform_noise_map(model: PreTrainedModel, heads: Heads | None = None) -> Iterator[None]:
    """Inside, the noise map weighs all keys that a query sees alike, exactly: its queries are zero, and so its scores.

    Arguments and errors as in `lambda_zero`.
    """

    def change(_: DiffTransformerAttention, projected: Projected, chosen: Tensor) -> Projected:
        noise = torch.stack((torch.zeros_like(chosen), chosen), dim=1).flatten()  # [signal, noise] of each head
        return projected._replace(q=projected.q.masked_fill(noise[:, None, None], 0.0))

    with _changed(model, heads, change):
        yield


def mean_lambda(model: PreTrainedModel, tokens: np.ndarray, batch_size: int = 8) -> LambdaMeans:
    """Every head's lambda, its mean over all tokens int `[N, T]`.

    Raises:
        UserError: the model has no differential attention, or the sequences do not fit it.
    """
    sums: dict[int, Tensor] = {}
    by_token = False
    batches = token_batches(model, tokens, batch_size)

    def add(layer: DiffTransformerAttention, projected: Projected, _: Tensor) -> Projected:
        nonlocal by_token
        by_token |= isinstance(projected.extra, Tensor) and projected.extra.ndim == 3 and projected.extra.shape[2] > 1
        total = full_lambda(projected).double().sum((0, 2)).cpu()
        sums[layer.layer_idx] = sums.get(layer.layer_idx, 0) + total
        return projected

    with torch.inference_mode(), mode(model, training=False), _changed(model, None, add):
        for ids in batches:
            model.base_model(input_ids=ids, use_cache=False)
    return LambdaMeans({layer: total / tokens.size for layer, total in sums.items()}, by_token)


def full_lambda(projected: Projected) -> Tensor:
    """Lambda of a differential layer's projections, `[B, H, T]`, in its own dtype or float32."""
    batch, maps, length = projected.q.shape[:3]
    lam = projected.extra
    lam = lam if isinstance(lam, Tensor) else torch.tensor(lam, dtype=torch.float32)
    return lam.to(projected.q.device).expand(batch, maps // 2, length)


@contextmanager
def _changed(model: PreTrainedModel, heads: Heads | None, change: _Change) -> Iterator[None]:
    """Inside, the layers of these heads use what `change` makes of their projections."""
    layers = differential_layers(model)
    chosen = {layer: torch.zeros(layer.num_heads, dtype=torch.bool) for layer in layers}
    _choose({layer.layer_idx: of for layer, of in chosen.items()}, heads)
    before = {layer: layer.__dict__.get("project") for layer, of in chosen.items() if of.any()}
    try:
        for layer in before:
            layer.__dict__["project"] = _wrapped(layer, chosen[layer], change)
        yield
    finally:
        for layer, project in before.items():
            layer.__dict__.pop("project", None)
            if project is not None:
                layer.__dict__["project"] = project


def _choose(chosen: dict[int, Tensor], heads: Heads | None) -> None:
    """Set the heads to change, of each layer bool `[H]`."""
    if heads is None:
        heads = [(layer, head) for layer, of in chosen.items() for head in range(len(of))]
    for layer, head in heads:
        if layer not in chosen or not 0 <= head < len(chosen[layer]):
            known = ", ".join(f"{number}: {len(of)}" for number, of in chosen.items())
            raise ValueError(f"heads: ({layer}, {head}) is none of the model's (heads of each layer: {known})")
        chosen[layer][head] = True


def _wrapped(layer: DiffTransformerAttention, chosen: Tensor, change: _Change) -> Callable[..., Projected]:
    project = layer.project

    def changed(*args: Any, **kwargs: Any) -> Projected:
        projected = project(*args, **kwargs)
        return change(layer, projected, chosen.to(projected.q.device))

    return changed
