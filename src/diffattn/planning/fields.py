"""The fields of a configuration, checked: what is missing or does not fit is named, with what was expected."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from diffattn.planning.kinds import ENCODERS, EXPERT_FIELDS, NOT_SOFTMAX, OTHER_LAYERS, STATE_SPACE_FIELDS

__all__ = ["Fields"]

#: No real configuration has more; a number beyond it is a mistake.
_LARGEST, _MOST_LAYERS = 10**9, 10_000
_NO_DECODER = "expected a decoder-only language model with softmax attention"


class Fields:
    """A configuration's fields; that of the language part where it holds several.

    Attributes:
        nested: whether the language part stands in `text_config`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        inner = config.get("text_config")
        self.nested = isinstance(inner, Mapping) and "hidden_size" not in config
        self._outer = config
        self._config: Mapping[str, Any] = inner if self.nested and isinstance(inner, Mapping) else config

    def get(self, name: str, default: Any = None) -> Any:
        return self._config.get(name, default)

    def has(self, name: str) -> bool:
        return name in self._config

    @property
    def kind(self) -> str | None:
        """model_type.

        Raises:
            ValueError: it is no name.
        """
        kind = self.get("model_type")
        if kind is not None and not isinstance(kind, str):
            raise ValueError(f"model_type: expected a name, got {kind!r}")
        return kind

    def count(self, name: str, default: int | None = None, *, least: int = 1, most: int = _LARGEST) -> int:
        """A whole number from `least` to `most`.

        Raises:
            ValueError: it is missing and has no default, or is something else.
        """
        value = self._config.get(name)
        if value is None:
            value = default
        if value is None:
            raise ValueError(f"{name}: expected a whole number, the configuration lacks it")
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"{name}: expected a whole number from {least:,} to {most:,}, got {_short(value)}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false.

        Raises:
            ValueError: it is something else.
        """
        value = self._config.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ValueError(f"{name}: expected true or false, got {_short(value)}")
        return value

    def choice(self, name: str, known: Sequence[str]) -> str:
        """One of the names; the first where the configuration says nothing.

        Raises:
            ValueError: it is something else.
        """
        value = self._config.get(name)
        if value is None:
            return known[0]
        if value not in known:
            raise ValueError(f"{name}: expected {', '.join(known[:-1])} or {known[-1]}, got {_short(value)}")
        return str(value)

    def entries(self, name: str, kind: type, length: int | None = None) -> list[Any] | None:
        """A list of entries of one kind, or None where the configuration has none.

        Raises:
            ValueError: it is something else, or not of `length`.
        """
        value = self._config.get(name)
        if value is None:
            return None
        fits = isinstance(value, list) and all(type(entry) is kind for entry in value)
        if not fits or (length is not None and len(value) != length):
            many = f"{length} entries, one a layer" if length is not None else "a list"
            raise ValueError(f"{name}: expected {many}, of {kind.__name__}, got {_short(value)}")
        return list(value)

    @property
    def layers(self) -> int:
        return self.count("num_hidden_layers", most=_MOST_LAYERS)

    def heads(self) -> tuple[int, int]:
        """Output heads and key/value heads of the ordinary attention with the same cache."""
        heads = self.count("num_attention_heads")
        keys = self.count("num_key_value_heads", heads)
        if self.kind == "motif":
            heads -= self.count("num_noise_heads", most=heads - 1)
        if self.own_attention == "v2":
            if heads % 2:
                raise ValueError(f"num_attention_heads: expected an even number for attention 'v2', got {heads}")
            heads //= 2
        if self.own_attention == "v1":
            keys *= 2
        if heads % keys and not self.get("kv_lora_rank"):
            raise ValueError(f"num_key_value_heads: expected a divisor of the {heads} heads, got {keys}")
        return heads, keys

    def map_dim(self, heads: int, default: int | None) -> int:
        """Width of a softmax map."""
        if self.own_attention == "v1":
            return self.count("map_dim")
        if self.get("head_dim") is not None or default is not None:
            return self.count("head_dim", default)
        width = self.count("hidden_size")
        if width % heads:
            raise ValueError(
                f"hidden_size: expected a multiple of the {heads} heads, head_dim being absent, got {width}"
            )
        return width // heads

    @property
    def own_attention(self) -> str:
        """Of our own configurations, whose default is "v2"; others have ordinary attention."""
        if self.kind != "diff_transformer":
            return "softmax"
        attention = self.get("attention", "v2")
        if attention not in ("softmax", "gated", "v1", "v2"):
            raise ValueError(f"attention: expected softmax, gated, v1 or v2, got {_short(attention)}")
        return str(attention)

    def layer_types(self) -> list[str] | None:
        """ "full_attention" or "sliding_attention" for each layer, where the configuration says it.

        Raises:
            ValueError: another number of them, or a layer of another kind.
        """
        types = self.entries("layer_types", str, self.layers)
        for kind in types or ():
            if kind not in ("full_attention", "sliding_attention"):
                raise ValueError(f"layer_types: expected full_attention or sliding_attention, got {_short(kind)}")
        return types

    def refuse_others(self, known: Collection[str]) -> None:
        """Refuse what is no decoder with softmax attention, and what would be counted wrongly.

        Raises:
            ValueError: it is.
        """
        kinds = [str(config.get("model_type")).lower() for config in (self._outer, self._config)]
        if self.get("is_encoder_decoder") or self._outer.get("is_encoder_decoder"):
            raise ValueError(f"is_encoder_decoder: {_NO_DECODER}, got {kinds[0]!r} with an encoder")
        for kind in kinds:
            if kind in ENCODERS:
                raise ValueError(f"model_type: {_NO_DECODER}, got the encoder {kind!r}")
            if kind in NOT_SOFTMAX or any(self.has(name) for name in STATE_SPACE_FIELDS):
                raise ValueError(f"model_type: {_NO_DECODER} in every layer, got {kind!r}")
        if self.kind not in known:
            self._refuse_unknown(kinds[-1])

    def _refuse_unknown(self, kind: str) -> None:
        if kind in OTHER_LAYERS:
            raise ValueError(f"model_type: expected layers like Llama's, got {kind!r}, whose would be counted wrongly")
        for name in self.entries("architectures", str) or ():
            if not name.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")):
                raise ValueError(f"architectures: {_NO_DECODER} (...ForCausalLM), got {_short(name)}")
        for name, what in EXPERT_FIELDS.items():
            if self._config.get(name):
                raise ValueError(f"model_type: expected a known family where there are {what} ({name}), got {kind!r}")


def _short(value: Any) -> str:
    """The value as an error shows it, however long it is."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**18:
        return "a number of more than 18 digits"
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
