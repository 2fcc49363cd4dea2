"""The layers of `diffattn.nn` behind transformers' attention interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.cache_utils import Cache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward

from diffattn.models.compat import held_cache, update_cache
from diffattn.models.configuration import DiffTransformerConfig
from diffattn.models.interface import IMPLEMENTATION
from diffattn.models.sinks import check_takes_sinks, eager_with_sinks
from diffattn.nn import AttentionLayer, DiffAttentionV1, DiffAttentionV2, GatedAttention, SoftmaxAttention

__all__ = ["DiffTransformerAttention", "build_attention"]


class DiffTransformerAttention(AttentionLayer):
    """Puts a layer of `diffattn.nn` behind transformers' attention interface; mixed into that layer's class.

    Whatever the variant, the interface is called once, on the geometry that the configuration states.
    """

    is_causal = True

    def attach(self, config: DiffTransformerConfig, layer_idx: int) -> None:
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.map_dim**-0.5
        self.num_key_value_groups = config.num_attention_heads // self.num_kv_heads
        self.records_lambda = False
        self.recorded_lambda: Tensor | None = None

    def forward(  # type: ignore[override]
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        attention_mask: Any = None,
        cache: Cache | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        cache, kwargs = held_cache(cache, past_key_values, kwargs)
        projected = self.project(hidden_states, position_embeddings, kwargs.get("position_ids"))
        key, value, lam = projected.k, projected.v, projected.extra if self.MAPS == 2 else None
        if self.records_lambda and lam is not None:
            self.recorded_lambda = torch.as_tensor(lam).detach()
        if cache is not None:
            key, value = update_cache(cache, key, value, self.layer_idx, kwargs)
        native = self.config._attn_implementation == IMPLEMENTATION
        attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_with_sinks if hasattr(self, "sinks") else eager_attention_forward
        )
        attn_output, attn_weights = attention_interface(
            self,
            projected.q if native else self.engine_queries(projected.q),
            key,
            value,
            attention_mask,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
            sliding_window=self.window,
            **self.own_arguments(attention_interface, lam),
            **kwargs,
        )
        if not native:  # engines return [..., heads * width] as well as [..., heads, width]
            shape = (*hidden_states.shape[:-1], self.num_heads, self.MAPS, self.value_dim)
            attn_output = self.combine(attn_output.reshape(shape), projected.extra)
            attn_weights = self.signed_weights(attn_weights, lam)
        return self.output(attn_output, projected.extra), attn_weights

    def own_arguments(self, attention_interface: Callable, lam: Tensor | float | None) -> dict[str, Any]:
        """Beyond what every engine takes: lambda, which only ours knows, and sinks, by transformers' name."""
        implementation = self.config._attn_implementation
        own: dict[str, Any] = {"diff_lambda": lam} if implementation == IMPLEMENTATION else {}
        if hasattr(self, "sinks"):
            check_takes_sinks(implementation or "eager", attention_interface)
            own["s_aux"] = self.sinks
        return own

    def engine_queries(self, q: Tensor) -> Tensor:
        """Queries as wide as the cached keys: `[q1, 0]` and `[0, q2]` where a key holds one for each map (V1)."""
        if self.KEYS == 1:
            return q
        signal, noise = q[:, 0::2], q[:, 1::2]
        pair = (F.pad(signal, (0, self.map_dim)), F.pad(noise, (self.map_dim, 0)))
        return torch.stack(pair, dim=2).flatten(1, 2)

    def signed_weights(self, weights: Tensor | None, lam: Tensor | float | None) -> Tensor | None:
        """The signed map `[B, H, Tq, Tk]` from the maps of physical heads, where the engine gives them."""
        if weights is None or lam is None:
            return weights
        if isinstance(lam, Tensor) and lam.ndim == 3:
            lam = lam.unsqueeze(-1)
        return weights[:, 0::2] - lam * weights[:, 1::2]


class SoftmaxSelfAttention(DiffTransformerAttention, SoftmaxAttention):
    """`SoftmaxAttention` behind the interface."""


class GatedSelfAttention(DiffTransformerAttention, GatedAttention):
    """`GatedAttention` behind the interface."""


class DiffSelfAttentionV1(DiffTransformerAttention, DiffAttentionV1):
    """`DiffAttentionV1` behind the interface."""


class DiffSelfAttentionV2(DiffTransformerAttention, DiffAttentionV2):
    """`DiffAttentionV2` behind the interface."""


def build_attention(config: DiffTransformerConfig, layer_idx: int) -> DiffTransformerAttention:
    sliding = (config.layer_types or [])[layer_idx] == "sliding_attention"
    shared: dict[str, Any] = {
        "hidden_size": config.hidden_size,
        "num_heads": config.num_output_heads,
        "num_kv_heads": config.num_key_value_heads,
        "map_dim": config.map_dim,
        "bias": config.attention_bias,
        "output_bias": config.attention_output_bias,
        "qk_norm": config.qk_norm,
        "norm_eps": config.rms_norm_eps,
        "rope_base": None,  # the model turns queries and keys
        "log_n_length": config.log_n_length,
        "window": config.sliding_window if sliding else None,
        "dropout": config.attention_dropout or 0.0,
    }
    layer: Any
    lam: dict[str, Any] = {"lambda_granularity": config.lambda_granularity}
    start = config.lambda_init_of(layer_idx)
    if config.attention == "v1":
        layer = DiffSelfAttentionV1(**shared, **lam, lambda_init=start, layer_idx=layer_idx, head_norm=config.head_norm)
    elif config.attention == "v2":
        lam["lambda_init"] = 0.5 if start is None else start
        layer = DiffSelfAttentionV2(**shared, **lam, lambda_bias=config.lambda_bias)
    elif config.attention == "softmax":
        layer = SoftmaxSelfAttention(**shared, attention_sink=config.attention_sink)
    else:
        layer = GatedSelfAttention(**shared)
    layer.attach(config, layer_idx)
    return layer
