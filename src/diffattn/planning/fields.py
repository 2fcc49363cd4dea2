"""The fields of a configuration, checked: what is missing or does not fit is named, with what was expected."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["Fields"]

_ENCODERS = {
    "albert", "bart", "bert", "camembert", "clip", "deberta", "deberta-v2", "distilbert", "electra", "eurobert",
    "marian", "mbart", "modernbert", "mpnet", "mt5", "nomic_bert", "pegasus", "roberta", "siglip", "t5", "umt5", "vit",
    "whisper", "xlm-roberta",
}  # fmt: skip
_NOT_SOFTMAX = {
    "bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "kimi_linear", "lfm2", "mamba", "mamba2",
    "minimax", "nemotron_h", "olmo_hybrid", "qwen3_5", "qwen3_next", "recurrent_gemma", "rwkv", "xlstm", "zamba",
    "zamba2",
}  # fmt: skip
_OTHER_LAYERS = {
    "apertus", "arcee", "bitnet", "bloom", "codegen", "cohere", "cohere2", "dbrx", "doge", "falcon", "glm4_moe", "gpt2",
    "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "jais2", "llama4", "llama4_text", "mpt", "nanochat", "nemotron",
    "olmo", "opt", "persimmon", "phi", "phimoe", "stablelm", "starcoder2", "xglm",
}  # fmt: skip
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size")
_NO_DECODER = "expected a decoder-only language model with softmax attention"


class Fields:
    """A configuration's fields; that of the language part where it holds several.

    Attributes:
        nested: whether the language part stands in `text_config`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        inner = config.get("text_config")
        self.nested = isinstance(inner, Mapping) and "hidden_size" not in config
        self._config: Mapping[str, Any] = inner if self.nested and isinstance(inner, Mapping) else config

    def get(self, name: str, default: Any = None) -> Any:
        return self._config.get(name, default)

    def count(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number of at least `least`.

        Raises:
            ValueError: it is missing and has no default, or is something else.
        """
        value = self._config.get(name)
        if value is None:
            value = default
        if value is None:
            raise ValueError(f"{name}: expected a whole number, the configuration lacks it")
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name}: expected a whole number of {least} or more, got {value!r}")
        return value

    def heads(self) -> tuple[int, int]:
        """Output heads and key/value heads of the ordinary attention with the same cache."""
        heads = self.count("num_attention_heads")
        keys = self.count("num_key_value_heads", heads)
        if self.get("model_type") == "motif":
            heads -= self.count("num_noise_heads")
        if self._attention == "v2":
            heads //= 2
        if self._attention == "v1":
            keys *= 2
        if heads % keys and not self.get("kv_lora_rank"):
            raise ValueError(f"num_key_value_heads: expected a divisor of the {heads} heads, got {keys}")
        return heads, keys

    def map_dim(self, heads: int, default: int | None) -> int:
        """Width of a softmax map."""
        if self._attention == "v1":
            return self.count("map_dim")
        if self.get("head_dim") is not None or default is not None:
            return self.count("head_dim", default)
        width = self.count("hidden_size")
        if width % heads:
            raise ValueError(
                f"hidden_size: expected a multiple of the {heads} heads where head_dim is absent, got {width}"
            )
        return width // heads

    @property
    def _attention(self) -> str:
        """Of our own configurations; others have ordinary attention."""
        return str(self.get("attention")) if self.get("model_type") == "diff_transformer" else "softmax"

    def layer_types(self, layers: int) -> list[str] | None:
        """ "full_attention" or "sliding_attention" for each layer, where the configuration says it.

        Raises:
            ValueError: another number of them, or a layer of another kind.
        """
        types = self.get("layer_types")
        if types is None:
            return None
        if not isinstance(types, list) or len(types) != layers:
            raise ValueError(f"layer_types: expected {layers} entries, one a layer, got {types!r}")
        for kind in types:
            if kind not in ("full_attention", "sliding_attention"):
                raise ValueError(f"layer_types: expected full_attention or sliding_attention, got {kind!r}")
        return types

    def refuse_others(self, known: Collection[str]) -> None:
        """Refuse what is no decoder with softmax attention, and mixtures of experts of a family not in `known`.

        Raises:
            ValueError: it is.
        """
        kind = self.get("model_type")
        if kind is not None and not isinstance(kind, str):
            raise ValueError(f"model_type: expected a name, got {kind!r}")
        if self.get("is_encoder_decoder"):
            raise ValueError(f"is_encoder_decoder: {_NO_DECODER}, got {kind!r} with an encoder")
        if kind in _ENCODERS:
            raise ValueError(f"model_type: {_NO_DECODER}, got the encoder {kind!r}")
        if kind in _NOT_SOFTMAX or any(name in self._config for name in ("ssm_cfg", "state_size", "mamba_d_state")):
            raise ValueError(f"model_type: {_NO_DECODER} in every layer, got {kind!r}")
        if kind not in known:
            self._refuse_unknown(kind)

    def _refuse_unknown(self, kind: str | None) -> None:
        if kind in _OTHER_LAYERS:
            raise ValueError(f"model_type: expected layers like Llama's, got {kind!r}, whose would be counted wrongly")
        for name in self._config.get("architectures") or ():
            if not str(name).endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")):
                raise ValueError(f"architectures: {_NO_DECODER} (...ForCausalLM), got {name!r}")
        for name in _EXPERTS:
            if self._config.get(name):
                raise ValueError(f"model_type: expected a known family where there are experts ({name}), got {kind!r}")
        if self._config.get("kv_lora_rank"):
            raise ValueError(f"model_type: expected a known family where keys are latent (kv_lora_rank), got {kind!r}")
