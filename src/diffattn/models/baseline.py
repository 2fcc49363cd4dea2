"""From an ordinary model's configuration to the fields of a variant."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

__all__ = ["BODY", "variant_fields"]

# Bodies that differ from Llama's in nothing but biases, norms of queries and keys, and sliding windows.
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "diff_transformer")

COPIED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "hidden_act",
    "max_position_embeddings",
    "initializer_range",
    "rms_norm_eps",
    "use_cache",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "tie_word_embeddings",
    "attention_dropout",
    "mlp_bias",
    "rotary",
    "log_n_length",
    "dtype",
)

# Fields that a variant shares with its baseline.
BODY = (
    *COPIED,
    "rope_parameters",
    "layer_types",
    "sliding_window",
    "attention_bias",
    "attention_output_bias",
    "qk_norm",
)


def variant_fields(config: PreTrainedConfig, attention: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `DiffTransformerConfig` for this variant of `config`.

    Raises:
        ValueError: the configuration is of another family, or its attention is not the ordinary one.
    """
    if config.model_type not in FAMILIES:
        raise ValueError(f"config: expected a model of the family {', '.join(FAMILIES)}, got {config.model_type!r}")
    if getattr(config, "attention", "softmax") != "softmax":
        raise ValueError(f"config: expected ordinary attention to derive from, got {config.attention!r}")
    fields = {name: getattr(config, name) for name in COPIED if hasattr(config, name)}
    rope = getattr(config, "rope_parameters", None)
    if rope is not None:
        fields["rope_parameters"] = dict(rope)
    if attention == "softmax":  # a sink belongs to the attention that a variant replaces
        fields["attention_sink"] = bool(getattr(config, "attention_sink", False))
    fields |= {**_heads(config, attention), **_biases(config), **_layers(config), "attention": attention, **overrides}
    if "layer_types" not in overrides and len(set(fields["layer_types"])) == 1:
        fields["layer_types"] = fields["layer_types"][:1] * fields["num_hidden_layers"]
    return fields


def _heads(config: PreTrainedConfig, attention: str) -> dict[str, int]:
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    map_dim = getattr(config, "head_dim", None) or _whole(config.hidden_size, heads)
    if attention == "v1":
        if heads % 2 or kv_heads % 2:
            raise ValueError(
                f"attention: 'v1' pairs heads, so it needs even numbers of heads and key/value heads, got {heads} and "
                f"{kv_heads}; 'v2' works with any"
            )
        return _geometry(heads, 2 * map_dim, kv_heads // 2, map_dim)
    if attention == "v2":
        return _geometry(2 * heads, map_dim, kv_heads, map_dim)
    return _geometry(heads, map_dim, kv_heads, map_dim)


def _geometry(query_heads: int, head_dim: int, kv_heads: int, map_dim: int) -> dict[str, int]:
    return {
        "num_attention_heads": query_heads,
        "head_dim": head_dim,
        "num_key_value_heads": kv_heads,
        "map_dim": map_dim,
    }


def _whole(width: int, heads: int) -> int:
    if width % heads:
        raise ValueError(f"config: hidden_size {width} is no multiple of its {heads} heads and head_dim is not set")
    return width // heads


def _biases(config: PreTrainedConfig) -> dict[str, Any]:
    if config.model_type == "qwen2":  # its code has biases in q, k and v, without a field for them
        return {"attention_bias": True, "attention_output_bias": False}
    qk_norm = bool(getattr(config, "qk_norm", config.model_type == "qwen3"))
    return {
        "attention_bias": bool(getattr(config, "attention_bias", False)),
        "attention_output_bias": getattr(config, "attention_output_bias", None),
        "qk_norm": qk_norm,
    }


def _layers(config: PreTrainedConfig) -> dict[str, Any]:
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None)
    if types is None:
        types = ["sliding_attention" if window else "full_attention"] * config.num_hidden_layers
    sliding = "sliding_attention" in types
    return {"layer_types": list(types), "sliding_window": window if sliding else None}
