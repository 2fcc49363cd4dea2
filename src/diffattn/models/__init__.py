"""Hugging Face models with a choice of attention; importing this registers them with the Auto classes."""

from diffattn.models.caches import GrowingCache, GrowingLayer
from diffattn.models.configuration import VARIANTS, DiffTransformerConfig
from diffattn.models.counting import ParameterCount, count_parameters
from diffattn.models.modeling import (
    DiffTransformerForCausalLM,
    DiffTransformerModel,
    DiffTransformerPreTrainedModel,
)
from diffattn.models.registration import register

register()

__all__ = [
    "VARIANTS",
    "DiffTransformerConfig",
    "DiffTransformerForCausalLM",
    "DiffTransformerModel",
    "DiffTransformerPreTrainedModel",
    "GrowingCache",
    "GrowingLayer",
    "ParameterCount",
    "count_parameters",
]
