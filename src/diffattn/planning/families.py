"""From a Hugging Face configuration to a decoder's numbers, family by family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from diffattn.planning import mixtures
from diffattn.planning.attention import Attention, Latent
from diffattn.planning.body import FeedForward, Layer, Model
from diffattn.planning.fields import Fields

__all__ = ["FAMILIES", "read_model"]


@dataclass(frozen=True, kw_only=True)
class Family:
    """In what a family's layers differ from Llama's.

    Attributes:
        biases: which of q, k, v, o have one; None where the field `attention_bias` says it for all.
        qk_norm: as in `Attention`.
        norms: on the residual stream, a layer.
        head_dim: where the configuration does not say it; None for width over heads.
        tied: whether the output matrix is the embedding where the configuration does not say it.
        pattern: every how many layers one sees all keys, the others a window, where `layer_types` is absent.
        slides: whether `sliding_window` alone makes all layers slide.
        window: where the configuration has no field `sliding_window`.
        experts: reads the mixture from the fields; None for a dense feed-forward.
        sinks: learned sink scores.
        activation: parameters of the feed-forward's activation.
        latent: whether keys and values are latent (MLA).
    """

    biases: str | None = None
    qk_norm: str | None = None
    norms: int = 2
    head_dim: int | None = None
    tied: bool = False
    pattern: int | None = None
    slides: bool = False
    window: int | None = None
    experts: Callable[[Fields, int], FeedForward] | None = None
    sinks: bool = False
    activation: int = 0
    latent: bool = False


#: Families whose parameters are counted exactly, tested against transformers' own models.
FAMILIES = {
    "llama": Family(),
    "mistral": Family(biases="", slides=True, window=4096),
    "ministral": Family(biases="", slides=True, window=4096),
    "gemma": Family(head_dim=256, tied=True),
    "qwen2": Family(biases="qkv"),
    "qwen3": Family(qk_norm="head", head_dim=128),
    "smollm3": Family(tied=True),
    "granite": Family(),
    "olmo2": Family(qk_norm="all"),
    "olmo3": Family(qk_norm="all", pattern=4, window=4096),
    "phi3": Family(biases="", slides=True),
    "gemma2": Family(norms=4, head_dim=256, tied=True, pattern=2, window=4096),
    "gemma3_text": Family(qk_norm="head", norms=4, head_dim=256, tied=True, pattern=6, window=4096),
    "mixtral": Family(biases="", slides=True, experts=mixtures.mixtral),
    "qwen3_moe": Family(qk_norm="head", experts=mixtures.qwen3_moe),
    "gpt_oss": Family(biases="qkvo", head_dim=64, pattern=2, window=128, experts=mixtures.gpt_oss, sinks=True),
    "qwen2_moe": Family(biases="qkv", experts=mixtures.qwen2_moe),
    "olmoe": Family(qk_norm="all", experts=mixtures.mixtral),
    "deepseek_v2": Family(experts=mixtures.deepseek, latent=True),
    "deepseek_v3": Family(experts=mixtures.deepseek, latent=True),
    "diff_transformer": Family(),
    "diffllama": Family(),
    "motif": Family(biases="", activation=4),
}


def read_model(config: Mapping[str, Any], name: str) -> Model:
    """The decoder that a configuration describes, with ordinary attention where it has a differential one.

    A family that is not known is counted as Llama, and a note says so.

    Args:
        config: the contents of a config.json.
        name: of the model.

    Raises:
        ValueError: a field is missing or does not fit, or the model is no decoder with softmax attention; the message
            names the field and what was expected.
    """
    fields = Fields(config)
    fields.refuse_others(FAMILIES)
    family = FAMILIES.get(str(fields.kind), FAMILIES["llama"])
    windows = _windows(fields, family)
    attention = _attention(fields, family)
    width = fields.count("hidden_size")
    layers = tuple(
        Layer(
            attention=attention,
            feed_forward=_feed_forward(fields, family, index),
            norms=family.norms * width,
            window=window,
        )
        for index, window in enumerate(windows)
    )
    return Model(
        name=name,
        width=width,
        vocab=fields.count("vocab_size"),
        tied=fields.flag("tie_word_embeddings", family.tied),
        final_norm=width,
        layers=layers,
        positions=fields.count("max_position_embeddings") if fields.get("max_position_embeddings") else None,
        notes=_notes(fields),
    )


def _attention(fields: Fields, family: Family) -> Attention:
    width, heads, keys = fields.count("hidden_size"), *fields.heads()
    if family.latent:
        return _latent(fields, family, width, heads)
    dim = fields.map_dim(heads, family.head_dim)
    return Attention(
        name="softmax",
        width=width,
        heads=heads,
        maps=heads,
        keys=keys,
        values=keys,
        map_dim=dim,
        value_dim=dim,
        qk_norm="head" if fields.flag("qk_norm") else family.qk_norm,
        sinks=family.sinks or (fields.kind == "diff_transformer" and fields.flag("attention_sink")),
        **_biases(fields, family),
    )


def _biases(fields: Fields, family: Family) -> dict[str, Any]:
    whole = fields.flag("attention_bias")
    has = family.biases if family.biases is not None else "qkvo" if whole else ""
    found = {f"{part}_bias": part[0] in has for part in ("query", "key", "value", "output")}
    output = fields.get("attention_output_bias")
    return found if output is None else found | {"output_bias": fields.flag("attention_output_bias")}


def _latent(fields: Fields, family: Family, width: int, heads: int) -> Attention:
    nope, rope = fields.count("qk_nope_head_dim"), fields.count("qk_rope_head_dim")
    value = fields.count("v_head_dim")
    latent = Latent(
        query_rank=fields.count("q_lora_rank") if fields.get("q_lora_rank") else None,
        rank=fields.count("kv_lora_rank"),
        rope_dim=rope,
        nope_dim=nope,
        value_dim=value,
    )
    return Attention(
        name="softmax",
        width=width,
        heads=heads,
        maps=heads,
        keys=heads,
        values=heads,
        map_dim=nope + rope,
        value_dim=value,
        latent=latent,
        **_biases(fields, family),
    )


def _feed_forward(fields: Fields, family: Family, layer: int) -> FeedForward:
    if family.experts:
        return family.experts(fields, layer)
    bias = fields.flag("mlp_bias")
    inner = fields.count("intermediate_size")
    return FeedForward(width=fields.count("hidden_size"), inner=inner, bias=bias, extra=family.activation)


def _windows(fields: Fields, family: Family) -> list[int | None]:
    """For each layer the keys that a query sees at most."""
    layers, types = fields.layers, fields.layer_types()
    set_to_none = fields.has("sliding_window") and fields.get("sliding_window") is None
    window = None if set_to_none else fields.count("sliding_window", family.window or 0, least=0)
    if types is not None:
        return [
            fields.count("sliding_window", family.window) if kind == "sliding_attention" else None for kind in types
        ]
    if not window or not fields.flag("use_sliding_window", default=True):
        return [None] * layers
    pattern = fields.count("sliding_window_pattern", family.pattern) if family.pattern else None
    if pattern:
        return [None if (index + 1) % pattern == 0 else window for index in range(layers)]
    if fields.flag("use_sliding_window"):
        first = fields.count("max_window_layers", 0, least=0)
        return [window if index >= first else None for index in range(layers)]
    return [window if family.slides else None] * layers


def _notes(fields: Fields) -> tuple[str, ...]:
    kind, notes = fields.kind, []
    if kind not in FAMILIES:
        notes.append(f"model_type {kind!a} is not known here: counted as Llama's layers, with its biases where set.")
        if fields.get("sliding_window") and not fields.get("layer_types"):
            notes.append("Its sliding_window is left out: which layers have it is not known.")
    if fields.nested:
        notes.append("Counted is the language part (text_config) alone.")
    return tuple(notes)
