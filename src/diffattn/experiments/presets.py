"""Sizes that a comparison can be run at: a baseline model, its vocabulary, and how it is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from transformers import LlamaConfig

from diffattn.errors import UserError
from diffattn.training import TrainingSettings

__all__ = ["PRESETS", "Preset", "find_preset", "override"]


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One size.

    Attributes:
        name: as the command line knows it.
        summary: in a few words, for whoever chooses.
        hidden_size: width of the model.
        layers: number of layers.
        heads: query heads of the baseline, even, so that V1 can halve them.
        kv_heads: key and value heads, even for the same reason.
        intermediate_size: width of the feed-forward.
        vocab_size: tokens of the vocabulary; a small corpus may fill fewer.
        settings: of the training; its seed is set for each run.
        evaluation_tokens: at most this many tokens of each split are evaluated; None for all.
        evaluation_batch: sequences at once in an evaluation.
    """

    name: str
    summary: str
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    intermediate_size: int
    vocab_size: int
    settings: TrainingSettings
    evaluation_tokens: int | None
    evaluation_batch: int = 8

    def baseline(self, vocab_size: int) -> LlamaConfig:
        """The baseline's configuration: Llama's, tied embeddings, room for exactly the context trained on."""
        return LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            max_position_embeddings=self.settings.context,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
        )


# The softmax baseline's validation loss after 1M tokens of the standard library, by batch size and peak rate:
# 4 sequences: 4.59 at 5e-4, 4.30 at 1e-3, 4.42 at 2e-3, 4.58 at 4e-3; 8: 4.50 at 1e-3, 4.60 at 2e-3, 4.65 at 4e-3.
_SETTINGS = TrainingSettings(tokens=1_000_000, context=256, batch_size=4, learning_rate=1e-3)

PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            name="quick",
            summary="1.1M parameters, 1M tokens: minutes on two cores",
            hidden_size=128,
            layers=4,
            heads=4,
            kv_heads=2,
            intermediate_size=256,
            vocab_size=4096,
            settings=_SETTINGS,
            evaluation_tokens=100_000,
        ),
        Preset(
            name="small",
            summary="3M parameters, 3M tokens: 7 to 10 minutes a model on two cores",
            hidden_size=192,
            layers=4,
            heads=6,
            kv_heads=2,
            intermediate_size=448,
            vocab_size=8192,
            # bfloat16: a step takes 0.6 to 0.8 of float32's time where the processor has its instructions.
            settings=replace(_SETTINGS, tokens=3_000_000, batch_size=8, dtype="bfloat16"),
            evaluation_tokens=None,
        ),
    )
}


def find_preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        UserError: there is none; the message lists those that there are.
    """
    if name not in PRESETS:
        raise UserError(f"there is no preset {name!r}: use {' or '.join(PRESETS)}")
    return PRESETS[name]


def override(preset: Preset, **changes: Any) -> Preset:
    """The preset with other training settings; None leaves one as it is.

    Raises:
        UserError: a value is out of range.
    """
    wanted = {name: value for name, value in changes.items() if value is not None}
    try:
        return replace(preset, settings=replace(preset.settings, **wanted))
    except ValueError as error:
        raise UserError(str(error)) from error
