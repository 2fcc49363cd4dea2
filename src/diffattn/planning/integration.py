"""What changes in a configuration, field by field, when a model is made differential."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffattn.planning.body import Model
from diffattn.planning.request import PlanRequest

__all__ = ["fields_to_change", "is_expressible"]


def fields_to_change(request: PlanRequest, baseline: Model, models: Mapping[str, Model]) -> list[dict[str, Any]]:
    """Fields of `DiffTransformerConfig` that differ from the model's own configuration, and why.

    Args:
        request: the model's own fields, the variant, the training and the contexts.
        baseline: what was read from them.
        models: as `comparison` gives them.

    Returns:
        one entry a field: `field`, `before`, `after`, `why`; of a model that our configuration cannot express the heads
        alone.
    """
    base, other = baseline.layers[0].attention, models[request.variant].layers[0].attention
    wide, dim = request.variant == "v1", base.map_dim
    if not is_expressible(request.config):
        return [_entry("num_attention_heads", base.maps, other.maps, "query maps that the attention call sees")]
    kv, head = (base.keys // 2, 2 * dim) if wide else (base.keys, dim)
    rows = [
        ("model_type", request.config.get("model_type"), "diff_transformer", "a Llama body with a choice of attention"),
        ("attention", "softmax", request.variant, "the attention of every layer"),
        ("num_attention_heads", base.maps, other.maps, "what the attention call sees: two query maps a head"),
        ("num_key_value_heads", base.keys, kv, "the cache stays byte for byte"),
        ("head_dim", dim, head, "twice as wide: a pair of keys" if wide else "as before"),
        ("map_dim", dim, dim, "width of one softmax map, and of the rotation"),
        *_lambda(request.variant, other.heads),
        *_kept(baseline),
        *_feed_forward(request, baseline, models),
        *_positions(request, baseline),
    ]
    return [_entry(*row) for row in rows]


def is_expressible(config: Mapping[str, Any]) -> bool:
    """Whether `DiffTransformerConfig.from_baseline` takes the configuration."""
    return config.get("model_type") in ("llama", "mistral", "qwen2", "qwen3", "diff_transformer")


def _entry(field: str, before: Any, after: Any, why: str) -> dict[str, Any]:
    return {"field": field, "before": before, "after": after, "why": why}


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


def _kept(baseline: Model) -> list[Row]:
    """What the model's own family has by itself, and ours must be told."""
    attention, windows = baseline.layers[0].attention, [layer.window for layer in baseline.layers]
    rows: list[Row] = []
    if attention.query_bias:
        rows.append(("attention_bias", None, True, "biases of query, key and value, as before"))
    if attention.query_bias != attention.output_bias:
        rows.append(("attention_output_bias", None, attention.output_bias, "of the output, as before"))
    if attention.qk_norm:
        rows.append(("qk_norm", None, True, "norms of queries and keys, as before"))
    if any(windows):
        kinds = ["sliding_attention" if window else "full_attention" for window in windows]
        rows.append(("layer_types", None, kinds, "which layers have a window, as before"))
    return rows


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
