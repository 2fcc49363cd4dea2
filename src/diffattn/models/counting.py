"""How many parameters a configuration has, by the planner's arithmetic, and the feed-forward that makes two equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from diffattn.planning.body import Model
from diffattn.planning.comparison import matching_inner
from diffattn.planning.families import read_model
from diffattn.planning.own_attention import own_attention

if TYPE_CHECKING:
    from diffattn.models.configuration import DiffTransformerConfig

__all__ = ["ParameterCount", "body_of", "count_parameters", "match_intermediate_size"]


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
    model = body_of(config)
    found = model.parameters()
    embedding, feed_forward = found["embedding"], found["feed-forward"]
    return ParameterCount(
        embedding=embedding,
        attention=model.attention_total,
        feed_forward=feed_forward,
        other=model.total - embedding - feed_forward - model.attention_total,
    )


def match_intermediate_size(variant: DiffTransformerConfig, baseline: DiffTransformerConfig) -> int:
    """The multiple of 8 that brings the variant's number of parameters nearest to the baseline's.

    The baseline's own width stays where no multiple of 8 is nearer.

    Raises:
        ValueError: the attention alone already has more parameters than the baseline can give up.
    """
    model = body_of(variant)
    excess = model.total - body_of(baseline).total
    per_unit = sum(layer.feed_forward.per_unit for layer in model.layers)
    try:
        return matching_inner(variant.intermediate_size, excess, per_unit)
    except ValueError as error:
        raise ValueError(f"match_parameters: attention {variant.attention!r}: {error}") from error


def body_of(config: DiffTransformerConfig) -> Model:
    """The configuration as the planner's arithmetic takes it."""
    fields = config.to_dict()
    model = read_model(fields, "diff_transformer")
    base = model.layers[0].attention
    return model.with_attention({base: own_attention(fields, base) or base})
