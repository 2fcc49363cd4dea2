"""What changes in a configuration, field by field, when a model is made differential."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffattn.planning.body import Model
from diffattn.planning.request import PlanRequest

__all__ = ["fields_to_change"]


def fields_to_change(request: PlanRequest, baseline: Model, models: Mapping[str, Model]) -> list[dict[str, Any]]:
    """Fields of `DiffTransformerConfig` that differ from the model's own configuration, and why.

    Args:
        request: the model's own fields, the variant, the training and the contexts.
        baseline: what was read from them.
        models: as `comparison` gives them.

    Returns:
        one entry a field: `field`, `before`, `after`, `why`.
    """
    base, other = baseline.layers[0].attention, models[request.variant].layers[0].attention
    wide, dim = request.variant == "v1", base.map_dim
    kind = request.config.get("model_type")
    rows = [
        ("model_type", kind, "diff_transformer", "our model: a Llama body with a choice of attention"),
        ("attention", "softmax", request.variant, "the attention of every layer"),
        ("num_attention_heads", base.maps, other.maps, "what the attention call sees: two query maps a head"),
        ("num_key_value_heads", base.keys, base.keys // 2 if wide else base.keys, "the cache stays byte for byte"),
        ("head_dim", dim, 2 * dim if wide else dim, "twice as wide: a pair of keys" if wide else "as before"),
        ("map_dim", dim, dim, "width of one softmax map, and of the rotation"),
        *_lambda(request.variant, other.heads),
        *_feed_forward(request, baseline, models),
        *_positions(request, baseline),
    ]
    return [dict(zip(("field", "before", "after", "why"), row, strict=True)) for row in rows]


Row = tuple[str, Any, Any, str]


def _lambda(variant: str, heads: int) -> list[Row]:
    if variant == "gated":
        return []
    noise = ("num_noise_heads", 0, heads, "one noise map for each signal map, adjacent")
    if variant == "v2":
        return [
            noise,
            ("lambda_granularity", None, "token", "lambda = sigmoid of a projection, for each token and head"),
        ]
    return [
        noise,
        ("head_norm", None, True, "without it training is worse; V2 needs none"),
        ("lambda_init", None, "schedule", "0.8 - 0.6 exp(-0.3 layer), counted from 0"),
    ]


def _feed_forward(request: PlanRequest, baseline: Model, models: Mapping[str, Model]) -> list[Row]:
    """Narrowed only where there are no weights yet."""
    if request.variant != "v2" or "matched" not in models or not request.from_scratch:
        return []
    before, after = (min(layer.feed_forward.inner for layer in model.layers) for model in (baseline, models["matched"]))
    return [("intermediate_size", before, after, "only where the parameters are to stay: it pays for the queries")]


def _positions(request: PlanRequest, baseline: Model) -> list[Row]:
    target = max(request.contexts)
    if not baseline.positions or target <= baseline.positions:
        return []
    return [
        ("max_position_embeddings", baseline.positions, target, "the target is longer; extend the control as well"),
        ("rope_parameters", "as it is", "larger base or YaRN", "the rotation must reach the target"),
    ]
