"""Makes transformers know the operator and the models; importing `diffattn.models` runs it once."""

from __future__ import annotations

from transformers import AttentionInterface, AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.masking_utils import AttentionMaskInterface

from diffattn.models.configuration import DiffTransformerConfig
from diffattn.models.interface import IMPLEMENTATION, diffattn_attention, diffattn_mask
from diffattn.models.modeling import DiffTransformerForCausalLM, DiffTransformerModel

__all__ = ["register"]


def register() -> None:
    AttentionInterface.register(IMPLEMENTATION, diffattn_attention)
    # Without a mask function of that name, transformers would drop padding silently.
    AttentionMaskInterface.register(IMPLEMENTATION, diffattn_mask)
    AutoConfig.register(DiffTransformerConfig.model_type, DiffTransformerConfig, exist_ok=True)
    AutoModel.register(DiffTransformerConfig, DiffTransformerModel, exist_ok=True)
    AutoModelForCausalLM.register(DiffTransformerConfig, DiffTransformerForCausalLM, exist_ok=True)
