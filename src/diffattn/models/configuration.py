"""Configuration of the models: a Llama body with a choice of attention."""

from __future__ import annotations

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from diffattn.models.counting import count_parameters, match_intermediate_size
from diffattn.models.lambda_fields import check_starts, filled_granularity
from diffattn.nn.log_n import check_log_n_length

__all__ = ["VARIANTS", "DiffTransformerConfig"]

VARIANTS = ("softmax", "gated", "v1", "v2")


@strict
class DiffTransformerConfig(PreTrainedConfig):
    """Configuration of `DiffTransformerModel` and `DiffTransformerForCausalLM`.

    `num_attention_heads`, `head_dim` and `num_key_value_heads` are what the attention call sees, since caches and
    serving engines are sized from them. With D = `map_dim`, the width of one softmax map:

    | attention       | num_attention_heads | head_dim | num_key_value_heads |
    | softmax, gated  | H                   | D        | Hkv                 |
    | v1              | 2H                  | 2D       | Hkv (key pairs)     |
    | v2              | 2H                  | D        | Hkv                 |

    H counts output heads. `from_baseline` derives all of them from an ordinary model's configuration.

    Args:
        attention: "softmax", "gated", "v1" or "v2".
        map_dim: D; default `hidden_size` over the heads whose values fill it.
        num_noise_heads: noise maps, H for v1 and v2, 0 for the others.
        head_norm: v1 only, the norm of each head's output.
        lambda_init: "schedule", a number, or a list with a number a layer. For v2 it is where a learned number starts,
            or the fixed one, and "schedule" stands for 0.5.
        lambda_granularity: as in the layers of `diffattn.nn`. v1: "layer", "fixed", "head" or "token"; v2: "token",
            "head", "layer" or "fixed"; the first is the default.
        lambda_bias: v2's "token" only, a bias in `lambda_proj`.
        attention_bias: biases in q, k, v and o; `attention_output_bias` overrules it for o.
        qk_norm: RMSNorm of queries and keys before the rotation (Qwen3).
        layer_types: "full_attention" or "sliding_attention" for each layer; the latter see `sliding_window` keys.
        rotary: rotary embedding of queries and keys; False for no positions at all (NoPE).
        log_n_length: queries are multiplied by log(n) / log(log_n_length), n the keys that they see, 2 where it is 1;
            None leaves them as they are.
        attention_sink: softmax only, a learned logit a query head in the softmax's denominator (gpt-oss).
        unmatched_parameters: how many more than its baseline the model has after `match_parameters=True`.
        config_version: of this format.

    The other arguments as in `transformers.LlamaConfig`.

    Raises:
        ValueError: numbers that do not fit one another; the message names them.
    """

    model_type = "diff_transformer"
    base_model_tp_plan = {  # noqa: RUF012 (transformers reads it from the class)
        "layers.*.self_attn.q_proj": "colwise",
        "layers.*.self_attn.k_proj": "colwise",
        "layers.*.self_attn.v_proj": "colwise",
        "layers.*.self_attn.gate_proj": "colwise",
        "layers.*.self_attn.lambda_proj": "colwise",
        "layers.*.self_attn.o_proj": "rowwise",
        "layers.*.mlp.gate_proj": "colwise",
        "layers.*.mlp.up_proj": "colwise",
        "layers.*.mlp.down_proj": "rowwise",
    }
    base_model_pp_plan = {  # noqa: RUF012
        "embed_tokens": (["input_ids"], ["inputs_embeds"]),
        "layers": (["hidden_states", "attention_mask"], ["hidden_states"]),
        "norm": (["hidden_states"], ["hidden_states"]),
    }

    attention: str = "v2"
    vocab_size: int = 32000
    hidden_size: int = 512
    intermediate_size: int = 1376
    num_hidden_layers: int = 8
    num_attention_heads: int = 16
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    map_dim: int | None = None
    num_noise_heads: int | None = None
    head_norm: bool = True
    lambda_init: str | float | list | None = "schedule"
    lambda_granularity: str | None = None
    lambda_bias: bool = False
    attention_bias: bool = False
    attention_output_bias: bool | None = None
    qk_norm: bool = False
    rotary: bool = True
    log_n_length: int | None = None
    attention_sink: bool = False
    layer_types: list[str] | None = None
    sliding_window: int | None = None
    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-5
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    tie_word_embeddings: bool = False
    rope_parameters: dict | None = None
    attention_dropout: int | float | None = 0.0
    mlp_bias: bool = False
    unmatched_parameters: int | None = None
    config_version: int = 1

    def __post_init__(self, **kwargs: Any) -> None:
        if self.attention not in VARIANTS:
            raise ValueError(f"attention: expected one of {', '.join(VARIANTS)}, got {self.attention!r}")
        self._fill_geometry()
        self._check_geometry()
        self.lambda_granularity = filled_granularity(self.attention, self.lambda_granularity)
        check_starts(self.attention, self.lambda_granularity, self.lambda_init, self.num_hidden_layers)
        self._fill_layer_types()
        check_log_n_length(self.log_n_length)
        if self.attention_sink and self.attention != "softmax":
            raise ValueError(f"attention_sink: expected False for attention={self.attention!r}, got True")
        super().__post_init__(**kwargs)

    @property
    def maps(self) -> int:
        """Query maps of an output head."""
        return 2 if self.attention in ("v1", "v2") else 1

    @property
    def num_output_heads(self) -> int:
        return self.num_attention_heads // self.maps

    def _fill_geometry(self) -> None:
        value_maps = 2 if self.attention == "v1" else 1
        if self.num_attention_heads < 1 or self.num_attention_heads % self.maps:
            raise ValueError(
                f"num_attention_heads: expected an even number, two maps a head, for attention={self.attention!r}, "
                f"got {self.num_attention_heads}"
            )
        if self.map_dim is None and self.head_dim is not None:
            self.map_dim = self.head_dim // value_maps
        if self.map_dim is None:
            width = self.num_output_heads * value_maps
            if self.hidden_size % width:
                raise ValueError(
                    f"hidden_size: {self.hidden_size} is no multiple of the {width} maps that fill it; pass map_dim"
                )
            self.map_dim = self.hidden_size // width
        if self.head_dim is None:
            self.head_dim = value_maps * self.map_dim
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_output_heads
        if self.num_noise_heads is None:
            self.num_noise_heads = self.num_output_heads if self.maps == 2 else 0

    def _check_geometry(self) -> None:
        value_maps = 2 if self.attention == "v1" else 1
        assert self.map_dim is not None
        if self.head_dim != value_maps * self.map_dim:
            raise ValueError(
                f"head_dim: expected {value_maps} x map_dim = {value_maps * self.map_dim} for "
                f"attention={self.attention!r}, got {self.head_dim}"
            )
        if self.map_dim < 2 or self.map_dim % 2:
            raise ValueError(f"map_dim: expected an even width for rotary embedding, got {self.map_dim}")
        if not self.num_key_value_heads or self.num_output_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_key_value_heads: {self.num_key_value_heads} must divide the {self.num_output_heads} output heads"
            )
        noise = self.num_output_heads if self.maps == 2 else 0
        if self.num_noise_heads != noise:
            raise ValueError(
                f"num_noise_heads: expected {noise} for attention={self.attention!r}, got {self.num_noise_heads}"
            )

    def _fill_layer_types(self) -> None:
        if self.layer_types is None:
            self.layer_types = ["full_attention"] * self.num_hidden_layers
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(f"layer_types: expected {self.num_hidden_layers} entries, got {len(self.layer_types)}")
        if unknown := set(self.layer_types) - {"full_attention", "sliding_attention"}:
            raise ValueError(f"layer_types: expected full_attention or sliding_attention, got {sorted(unknown)}")
        if "sliding_attention" in self.layer_types and (self.sliding_window or 0) < 1:
            raise ValueError(
                f"sliding_window: expected a number of keys for the sliding_attention layers, got {self.sliding_window}"
            )

    def lambda_init_of(self, layer_idx: int) -> float | None:
        """lambda_init of one layer; None for the schedule."""
        if isinstance(self.lambda_init, list):
            return float(self.lambda_init[layer_idx])
        return None if self.lambda_init in ("schedule", None) else float(self.lambda_init)

    @classmethod
    def from_baseline(
        cls, config: PreTrainedConfig, attention: str = "v2", *, match_parameters: bool = False, **overrides: Any
    ) -> DiffTransformerConfig:
        """The variant of an ordinary model: same body, same cache, another attention.

        Args:
            config: of the family of Llama: Llama, Mistral, Qwen2, Qwen3, or this class with "softmax".
            attention: as in the class.
            match_parameters: choose `intermediate_size`, a multiple of 8, so that the number of parameters is nearest
                to the baseline's; `unmatched_parameters` says what remains.
            overrides: fields to set besides.

        Raises:
            ValueError: the baseline's heads do not allow the variant, or the configuration is of another family.
        """
        from diffattn.models.baseline import BODY, variant_fields

        variant = cls(**variant_fields(config, attention, overrides))
        if match_parameters:
            shared = {name: value for name, value in overrides.items() if name in BODY}
            baseline = cls(**variant_fields(config, "softmax", shared))
            variant.intermediate_size = match_intermediate_size(variant, baseline)
            variant.unmatched_parameters = count_parameters(variant).total - count_parameters(baseline).total
        return variant
