"""What changes in a configuration, field by field, when a model is made differential."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffattn.planning.body import Model

__all__ = ["fields_to_change"]


def fields_to_change(
    config: Mapping[str, Any], baseline: Model, models: Mapping[str, Model], variant: str
) -> list[dict[str, Any]]:
    """Fields of `DiffTransformerConfig` that differ from the model's own configuration, and why.

    Args:
        config: the model's own fields.
        baseline: what was read from them.
        models: as `comparison` gives them.
        variant: "v1", "v2" or "gated".

    Returns:
        one entry a field: `field`, `before`, `after`, `why`.
    """
    base, other = baseline.layers[0].attention, models[variant].layers[0].attention
    wide = variant == "v1"
    dim = base.map_dim
    kv = base.keys // 2 if wide else base.keys
    rows = [
        (
            "model_type",
            config.get("model_type"),
            "diff_transformer",
            "our model: a Llama body with a choice of attention",
        ),
        ("attention", "softmax", variant, "the attention of every layer"),
        ("num_attention_heads", base.maps, other.maps, "what the attention call sees: two query maps a head"),
        ("num_key_value_heads", base.keys, kv, "the cache stays byte for byte"),
        (
            "head_dim",
            dim,
            2 * dim if wide else dim,
            "V1's keys and values are pairs, twice as wide" if wide else "as before",
        ),
        ("map_dim", dim, dim, "width of one softmax map, and of the rotation"),
    ]
    if variant == "v2":
        rows.append(("num_noise_heads", 0, other.heads, "one noise map for each signal map, adjacent"))
        rows.append(
            ("lambda_granularity", None, "token", "lambda = sigmoid of a projection, one for each token and head")
        )
    if variant == "v1":
        rows.append(("num_noise_heads", 0, other.heads, "one noise map for each signal map, adjacent"))
        rows.append(("head_norm", None, True, "without it training is worse; V2 needs none"))
        rows.append(("lambda_init", None, "schedule", "0.8 - 0.6 exp(-0.3 layer), counted from 0"))
    if variant == "v2" and "matched" in models:
        inner = min(layer.feed_forward.inner for layer in models["matched"].layers)
        before = min(layer.feed_forward.inner for layer in baseline.layers)
        rows.append(
            ("intermediate_size", before, inner, "only where the parameters are to stay: it pays for the queries")
        )
    return [dict(zip(("field", "before", "after", "why"), row, strict=True)) for row in rows]
