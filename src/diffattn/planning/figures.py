"""Sizes, decode steps and bounds of the compared models, as a plan holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffattn.planning.attention import Attention
from diffattn.planning.body import Layer, Model
from diffattn.planning.flops import decode_step, prefill_flops, training_flops
from diffattn.planning.hardware import BYTES
from diffattn.planning.request import PlanRequest

__all__ = ["bounds", "decode", "sizes"]


def sizes(model: Model, request: PlanRequest) -> dict[str, Any]:
    """Parameters of one layer and of all, weights, cache, and the FLOPs of prefill and training at each context."""
    attention, size = model.layers[0].attention, BYTES[request.dtype]
    prefill = {context: prefill_flops(model, context) for context in request.contexts}
    return {
        "name": model.name,
        "attention": vars(attention) | {"latent": vars(attention.latent) if attention.latent else None},
        "inner": min(layer.feed_forward.inner for layer in model.layers),
        "layer": _layer(model.layers[-1]),
        "layer_attention": sum(attention.parameters().values()),
        "whole": model.parameters(),
        "total": model.total,
        "weight_bytes": model.total * size,
        "cache_bytes_a_token": model.cache_elements * size,
        "cache_bytes": {context: _cached(model, context) * size for context in request.contexts},
        "prefill_flops": prefill,
        "training_flops_a_token": {context: training_flops(model, context) for context in request.contexts},
    }


def _layer(layer: Layer) -> dict[str, int]:
    return layer.attention.parameters() | layer.feed_forward.parameters() | {"norms": layer.norms}


def _cached(model: Model, context: int) -> int:
    return sum(min(context, layer.window or context) * layer.attention.cache_elements for layer in model.layers)


def decode(models: Mapping[str, Model], request: PlanRequest) -> list[dict[str, Any]]:
    """A row for each context, batch and model, maps combined or not where there are two."""
    rows = []
    for context in request.contexts:
        for batch in request.batches:
            base = _step(models["softmax"], request, context, batch, False)["seconds"]
            for key, model in models.items():
                two = model.layers[0].attention.maps > model.layers[0].attention.heads
                for combined in (False, True) if two else (False,):
                    row = _step(model, request, context, batch, combined)
                    rows.append({"model": key, **row, "ratio": row["seconds"] / base})
    return rows


def _step(model: Model, request: PlanRequest, context: int, batch: int, combined: bool) -> dict[str, Any]:
    size, machine = BYTES[request.dtype], request.hardware
    step = decode_step(model, context, batch, size, queries=request.queries, combined=combined)
    attention = model.layers[0].attention
    needed = model.total * size + batch * _cached(model, context) * size
    return {
        "context": context,
        "batch": batch,
        "combined": combined,
        "flops": step.flops,
        "bytes": step.bytes,
        "intensity": step.intensity,
        "attention_intensity": attention.intensity(size, queries=request.queries, combined=combined),
        "seconds": step.seconds(machine.rate(request.dtype), machine.bandwidth),
        "fits": None if machine.memory is None else needed <= machine.memory,
    }


def bounds(models: Mapping[str, Model], request: PlanRequest) -> dict[str, Any]:
    """For each model, from how many heads a key/value head and tokens a step on attention is bound by arithmetic."""
    ridge = request.hardware.ridge(request.dtype)
    return {"ridge": ridge} | {
        key: [_bound(model.layers[0].attention, request, combined, ridge) for combined in (False, True)]
        for key, model in models.items()
    }


def _bound(attention: Attention, request: PlanRequest, combined: bool, ridge: float) -> dict[str, Any]:
    size = BYTES[request.dtype]
    each = attention.intensity(size, combined=combined)
    group = attention.heads / attention.keys * (2 if attention.name == "v1" else 1)
    return {
        "combined": combined,
        "intensity": request.queries * each,
        "memory_bound": request.queries * each < ridge,
        "queries": ridge / each,
        "heads_per_kv_head": None if attention.latent else group * ridge / (request.queries * each),
    }
