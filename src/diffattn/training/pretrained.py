"""Any causal language model of the Hugging Face layout, from a folder or the hub; safetensors and known code alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from diffattn.errors import UserError
from diffattn.training.huggingface import quiet
from diffattn.training.trainer import choose_device

__all__ = ["Pretrained", "load_pretrained"]

_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?", re.ASCII)


@dataclass(frozen=True)
class Pretrained:
    """What was loaded.

    Attributes:
        name: the folder or hub name that was asked for.
        model: in evaluation mode, float32; on CUDA where there is one, then in the checkpoint's own dtype.
        tokenizer: the model's own.
    """

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def load_pretrained(name: str | Path) -> Pretrained:
    """Load a model and its tokenizer, whoever trained it.

    Args:
        name: a folder that `save_pretrained` of model and tokenizer wrote, with which nothing is asked of any network;
            if there is no such folder, a name on the Hugging Face hub, such as "HuggingFaceTB/SmolLM2-135M".

    Raises:
        UserError: there is no such folder or name, no tokenizer, no safetensors weights or not those of the model; it
            needs code of its own; or it is no causal language model with softmax attention.
    """
    name = str(name)
    where: dict[str, Any] = {"local_files_only": _is_folder(name), "trust_remote_code": False}
    with quiet():
        config = _config(name, where)
        _check_kind(name, config)
        tokenizer = _tokenizer(name, where)
        model = _model(name, where)
    _check_causal(name, model)
    return Pretrained(name, model, tokenizer)


def _is_folder(name: str) -> bool:
    """Whether it is a folder, with what a model needs in it, and not a name on the hub."""
    folder = Path(name)
    if not folder.is_dir():
        if folder.exists() or not _HUB_NAME.fullmatch(name):
            raise UserError(f"there is no folder {name}: name one that save_pretrained wrote, or a model on the hub")
        return False
    if not (folder / "config.json").is_file():
        raise UserError(f"{name} holds no model (no config.json): name a folder that save_pretrained wrote")
    if not any(folder.glob("*.safetensors")):
        raise UserError(f"{name} holds no *.safetensors weights: save the model again with save_pretrained")
    if not any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise UserError(f"{name} holds no tokenizer: save the model's tokenizer beside it")
    return True


@contextmanager
def _told(problem: str) -> Iterator[None]:
    """Turn what transformers raises into one line."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        text = str(error).strip() or type(error).__name__
        if "trust_remote_code" in text:
            raise UserError(f"{problem}: it needs code of its own, which is never run here") from error
        raise UserError(f"{problem}: {text.splitlines()[0]}") from error


def _config(name: str, where: dict[str, Any]) -> PreTrainedConfig:
    with _told(f"the model {name} cannot be loaded"):
        return AutoConfig.from_pretrained(name, **where)


def _check_kind(name: str, config: PreTrainedConfig) -> None:
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or config.is_encoder_decoder:
        raise UserError(f"{name} is no causal language model (model_type {config.model_type}): name one")
    if getattr(config.get_text_config(), "num_attention_heads", None) is None:
        raise UserError(f"{name} has no softmax attention (model_type {config.model_type}): name a model that has")


def _tokenizer(name: str, where: dict[str, Any]) -> PreTrainedTokenizerBase:
    with _told(f"the tokenizer of {name} cannot be loaded"):
        tokenizer = AutoTokenizer.from_pretrained(name, **where)
    if not tokenizer.is_fast:
        raise UserError(f"{name} has no fast tokenizer (tokenizer.json): save one beside the model")
    return tokenizer


def _model(name: str, where: dict[str, Any]) -> PreTrainedModel:
    device = choose_device()
    dtype: Any = "auto" if device.type == "cuda" else torch.float32
    with _told(f"the weights of {name} cannot be loaded"):
        model, report = AutoModelForCausalLM.from_pretrained(
            name, use_safetensors=True, dtype=dtype, output_loading_info=True, **where
        )
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise UserError(f"the weights of {name} lack {missing[0]} ({len(missing)} in all): name a whole language model")
    return model.to(device).eval()


def _check_causal(name: str, model: PreTrainedModel) -> None:
    """An encoder loads as a causal model too; its first token sees the others."""
    pair = torch.tensor([[1, *[token] * 7] for token in (2, 3)], device=model.device)
    with torch.inference_mode():
        first = model(input_ids=pair, use_cache=False).logits[:, 0].float()
    difference, rounding = (first[0] - first[1]).abs().max(), max(1e-4, 2 * torch.finfo(model.dtype).eps)
    if difference > rounding * first.abs().max():
        raise UserError(f"{name} is no causal language model, its tokens see those that follow: name one")
