"""The models: a Llama body from transformers' own modules around one of this package's attention layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicCache
from transformers.masking_utils import (
    create_causal_mask,
    create_sliding_window_causal_mask,
    find_packed_sequence_indices,
)
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.import_utils import is_tracing
from transformers.utils.output_capturing import capture_outputs

from diffattn.models.attention import DiffTransformerAttention, build_attention
from diffattn.models.compat import CACHE, held_cache
from diffattn.models.configuration import DiffTransformerConfig
from diffattn.models.interface import IMPLEMENTATION
from diffattn.models.positions import rotary_embedding, same_document, token_positions
from diffattn.nn import AttentionLayer, HeadNorm
from diffattn.nn.lambdas import StartedLinear

__all__ = ["DiffTransformerForCausalLM", "DiffTransformerModel", "DiffTransformerPreTrainedModel"]


class DiffTransformerDecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config: DiffTransformerConfig, layer_idx: int) -> None:
        super().__init__()
        self.attention_type: str = (config.layer_types or [])[layer_idx]
        self.self_attn = build_attention(config, layer_idx)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        attended, _ = self.self_attn(self.input_layernorm(hidden_states), **kwargs)
        hidden_states = hidden_states + attended
        return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))


class DiffTransformerPreTrainedModel(PreTrainedModel):
    """Loading, saving and initial values."""

    config_class = DiffTransformerConfig
    config: DiffTransformerConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["DiffTransformerDecoderLayer"]  # noqa: RUF012 (transformers reads these from the class)
    _skip_keys_device_placement = ["cache", "past_key_values"]  # noqa: RUF012
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True
    _supports_attention_backend = True
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": DiffTransformerDecoderLayer,
        "attentions": DiffTransformerAttention,
    }

    def _check_and_adjust_attn_implementation(self, attn_implementation: str | None, *args: Any, **kwargs: Any) -> str:
        """Our operator is the default; any other implementation is transformers' own affair."""
        if attn_implementation in (None, IMPLEMENTATION):
            return IMPLEMENTATION
        return super()._check_and_adjust_attn_implementation(attn_implementation, *args, **kwargs)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, HeadNorm):
            init.ones_(module.weight)
        if isinstance(module, (AttentionLayer, StartedLinear)):
            module.reset_own(init)

    @contextmanager
    def record_lambda(self) -> Iterator[None]:
        """Inside, every forward keeps its layers' lambda for `lambda_statistics`."""
        layers = self._attention_layers()
        for layer in layers:
            layer.records_lambda = True
        try:
            yield
        finally:
            for layer in layers:
                layer.records_lambda = False

    def lambda_statistics(self) -> list[dict[str, float] | None]:
        """Mean, minimum and maximum of each layer's lambda in the latest recorded forward; None where there is none."""
        recorded = [layer.recorded_lambda for layer in self._attention_layers()]
        return [None if lam is None else _statistics(lam.float()) for lam in recorded]

    def _attention_layers(self) -> list[DiffTransformerAttention]:
        return [module for module in self.modules() if isinstance(module, DiffTransformerAttention)]


def _statistics(values: Tensor) -> dict[str, float]:
    low, high = values.aminmax()
    return {"mean": values.mean().item(), "min": low.item(), "max": high.item()}


class DiffTransformerModel(DiffTransformerPreTrainedModel):
    """The decoder without its output matrix. Arguments and result as in `transformers.LlamaModel`."""

    def __init__(self, config: DiffTransformerConfig) -> None:
        super().__init__(config)
        self.padding_idx = config.pad_token_id
        self.vocab_size = config.vocab_size
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, self.padding_idx)
        self.layers = nn.ModuleList(DiffTransformerDecoderLayer(config, i) for i in range(config.num_hidden_layers))
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = rotary_embedding(config)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Any = None,
        position_ids: Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast:
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("input_ids: expected exactly one of input_ids and inputs_embeds")
        hidden = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        cache, kwargs = held_cache(cache, past_key_values, kwargs)
        if use_cache and cache is None:
            cache = DynamicCache(config=self.config)
        segments = self._segments(position_ids, attention_mask, cache)
        if position_ids is None:
            position_ids = token_positions(self.config, hidden, attention_mask, cache)
        masks = self._masks(hidden, attention_mask, cache, position_ids, segments)
        if segments is not None and self.config._attn_implementation == IMPLEMENTATION:
            kwargs["segment_ids"] = segments.expand(hidden.shape[0], -1)
        turned = None if self.rotary_emb is None else self.rotary_emb(hidden, position_ids=position_ids)
        for layer in self.layers:
            assert isinstance(layer, DiffTransformerDecoderLayer)
            hidden = layer(
                hidden,
                attention_mask=masks[layer.attention_type],
                position_embeddings=turned,
                position_ids=position_ids,
                use_cache=use_cache,
                **{CACHE: cache},
                **kwargs,
            )
        return BaseModelOutputWithPast(last_hidden_state=self.norm(hidden), **{CACHE: cache})

    def _segments(self, position_ids: Tensor | None, attention_mask: Any, cache: Cache | None) -> Tensor | None:
        """Which packed document a token belongs to, `[B or 1, T]`, while the cache is empty.

        Transformers itself looks only where no cache is given. One token a row is never packed, and while a graph is
        traced a static cache's length cannot be asked for.
        """
        if position_ids is None or attention_mask is not None or position_ids.ndim != 2 or position_ids.shape[1] == 1:
            return None
        seen = 0 if cache is None else cache.get_seq_length()
        if (isinstance(seen, Tensor) and is_tracing(seen)) or seen != 0:
            return None
        return find_packed_sequence_indices(position_ids)

    def _masks(
        self, hidden: Tensor, attention_mask: Any, cache: Cache | None, position_ids: Tensor, segments: Tensor | None
    ) -> dict[str, Any]:
        if isinstance(attention_mask, dict):  # prepared by generate
            return attention_mask
        given: dict[str, Any] = {
            "config": self.config,
            "inputs_embeds": hidden,
            "attention_mask": attention_mask,
            CACHE: cache,
            "position_ids": position_ids,
        }
        if segments is not None and cache is not None and self.config._attn_implementation != IMPLEMENTATION:
            given["and_mask_function"] = same_document(segments.expand(hidden.shape[0], -1))
        makers = {"full_attention": create_causal_mask, "sliding_attention": create_sliding_window_causal_mask}
        return {kind: makers[kind](**given) for kind in set(self.config.layer_types or [])}


class DiffTransformerForCausalLM(DiffTransformerPreTrainedModel, GenerationMixin):
    """A causal language model. Arguments and result as in `transformers.LlamaForCausalLM`."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012
    _tp_plan = {"lm_head": "colwise_gather_output"}  # noqa: RUF012
    _pp_plan = {"lm_head": (["hidden_states"], ["logits"])}  # noqa: RUF012

    def __init__(self, config: DiffTransformerConfig) -> None:
        super().__init__(config)
        self.model = DiffTransformerModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Any = None,
        position_ids: Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            cache=cache,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        hidden = outputs.last_hidden_state
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(hidden[:, kept, :])
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            **{CACHE: getattr(outputs, CACHE)},
        )
