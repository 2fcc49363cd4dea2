"""How many parameters a configuration has, by arithmetic, and the feed-forward width that makes two models equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffattn.models.configuration import DiffTransformerConfig

__all__ = ["ParameterCount", "attention_parameters", "count_parameters", "match_intermediate_size"]


@dataclass(frozen=True, kw_only=True)
class ParameterCount:
    """Parameters of a causal language model; a tied output matrix counts once, as embedding.

    `attention` and `feed_forward` are over all layers; `other` holds norms and an output matrix that is not tied.
    """

    embedding: int
    attention: int
    feed_forward: int
    other: int

    @property
    def total(self) -> int:
        return self.embedding + self.attention + self.feed_forward + self.other


def count_parameters(config: DiffTransformerConfig) -> ParameterCount:
    width, layers = config.hidden_size, config.num_hidden_layers
    embedding = config.vocab_size * width
    return ParameterCount(
        embedding=embedding,
        attention=layers * attention_parameters(config),
        feed_forward=layers * _feed_forward(config, config.intermediate_size),
        other=(2 * layers + 1) * width + (0 if config.tie_word_embeddings else embedding),
    )


def attention_parameters(config: DiffTransformerConfig) -> int:
    """Parameters of one attention layer."""
    width, d, heads = config.hidden_size, config.map_dim, config.num_output_heads
    assert d is not None
    value = 2 * d if config.attention == "v1" else d
    keys = 2 if config.attention == "v1" else 1
    kv_heads = config.num_key_value_heads or heads
    columns = config.maps * heads * d + kv_heads * (keys * d + value)
    total = width * columns + heads * value * width
    if config.attention_bias:
        total += columns
    output_bias = config.attention_output_bias
    total += width * (config.attention_bias if output_bias is None else output_bias)
    total += 2 * d * config.qk_norm
    return total + _extra(config, value)


def _extra(config: DiffTransformerConfig, value: int) -> int:
    width, heads = config.hidden_size, config.num_output_heads
    if config.attention == "v1":
        vectors = 2 * value if config.lambda_granularity == "layer" else 0
        return vectors + (value if config.head_norm else 0)
    if config.attention == "v2":
        return heads * (width + config.lambda_bias)
    if config.attention == "gated":
        return heads * value * (width + config.attention_bias)
    return 0


def _feed_forward(config: DiffTransformerConfig, intermediate: int) -> int:
    width = config.hidden_size
    biases = 2 * intermediate + width if config.mlp_bias else 0
    return 3 * width * intermediate + biases


def match_intermediate_size(variant: DiffTransformerConfig, baseline: DiffTransformerConfig) -> int:
    """The multiple of 8 that brings the variant's number of parameters nearest to the baseline's.

    The baseline's own width stays where no multiple of 8 is nearer.

    Raises:
        ValueError: the attention alone already has more parameters than the baseline can give up.
    """
    excess = count_parameters(variant).total - count_parameters(baseline).total
    per_unit = variant.num_hidden_layers * (3 * variant.hidden_size + 2 * variant.mlp_bias)
    exact = variant.intermediate_size - excess / per_unit
    if exact < 8:
        raise ValueError(
            f"match_parameters: attention {variant.attention!r} needs {excess:,} parameters more than the baseline's "
            f"feed-forward can give up; widen intermediate_size ({baseline.intermediate_size})"
        )
    return min((8 * round(exact / 8), variant.intermediate_size), key=lambda size: abs(size - exact))
