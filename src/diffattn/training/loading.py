"""A trained model and its tokenizer, back from their folder; weights from safetensors alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

import diffattn.models  # noqa: F401  registers the models with the Auto classes
from diffattn.errors import UserError
from diffattn.storage import read_json
from diffattn.training.checkpoints import check_weights
from diffattn.training.huggingface import quiet
from diffattn.training.run_folder import CLAIM, MODEL
from diffattn.training.trainer import choose_device

__all__ = ["LoadedRun", "load_run"]


@dataclass(frozen=True)
class LoadedRun:
    """What a folder held.

    Attributes:
        folder: the one that was asked for.
        model: in evaluation mode, on CUDA where there is one.
        tokenizer: saved beside the model.
        claim: what `run.json` says of the run, None for a folder that only `save_pretrained` wrote.
    """

    folder: Path
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    claim: dict[str, Any] | None


def load_run(folder: Path) -> LoadedRun:
    """Load from a run's folder, or from one that `save_pretrained` of model and tokenizer wrote.

    Raises:
        UserError: there is no finished model in it, no tokenizer, or weights that do not fit the configuration.
    """
    folder = Path(folder)
    claim = read_json(folder / CLAIM)
    place = folder / MODEL if claim is not None else folder
    if not (place / "config.json").is_file():
        raise UserError(_nothing_there(folder, claim))
    if not (place / "tokenizer.json").is_file():
        raise UserError(f"{place} has no tokenizer.json: save the tokenizer beside the model")
    with quiet():
        model = _load_model(place)
        tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
    return LoadedRun(folder, model.to(choose_device()).eval(), tokenizer, claim)


def _load_model(place: Path) -> PreTrainedModel:
    try:
        config = AutoConfig.from_pretrained(place, local_files_only=True)
        with torch.device("meta"):
            empty = AutoModelForCausalLM.from_config(config)
    except (ValueError, KeyError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{place / 'config.json'} describes no model known here: {reason}") from error
    check_weights(empty, place)
    return AutoModelForCausalLM.from_pretrained(place, local_files_only=True, use_safetensors=True, dtype=torch.float32)


def _nothing_there(folder: Path, claim: dict[str, Any] | None) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder}: name a run's folder, or one that save_pretrained wrote"
    if claim is not None:
        return f"the run in {folder} has not finished: give its command again to go on, then ask for it"
    if (folder / "compare.json").is_file():
        runs = sorted(path.parent.name for path in folder.glob("*/training.json"))
        return f"{folder} holds a comparison: name one of its runs ({', '.join(runs) or 'none has finished'})"
    return f"{folder} holds no model (no config.json): name a run's folder, or one that save_pretrained wrote"
