"""A run's folder: whose it is (`run.json`), the model it made, and the result that marks it as finished."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel

from diffattn.data import PreparedData
from diffattn.errors import UserError
from diffattn.storage import read_json, to_json, write_json
from diffattn.training.settings import TrainingSettings

__all__ = ["CHECKPOINTS", "CLAIM", "MODEL", "RESULT", "claim", "finish", "refuse_difference", "refuse_strangers"]

CLAIM = "run.json"
RESULT = "training.json"
MODEL = "model"
CHECKPOINTS = "checkpoints"

_VOLATILE = ("transformers_version", "_name_or_path", "architectures", "use_cache", "dtype")


def claim(
    folder: Path,
    config: PretrainedConfig,
    data: PreparedData,
    settings: TrainingSettings,
    origin: dict[str, Any] | None,
) -> None:
    """Write whose folder this is before anything else is in it, or refuse another run's."""
    ours = {
        "config": {key: value for key, value in config.to_dict().items() if key not in _VOLATILE},
        "settings": settings.to_dict(),
        "corpus": {"sha256": data.corpus["sha256"], "vocab_size": data.vocab_size},
    }
    theirs = read_json(folder / CLAIM)
    if theirs is None:
        refuse_strangers(folder)
        write_json(folder / CLAIM, {**ours, "origin": origin})
        return
    for part, values in ours.items():
        refuse_difference(folder, values, theirs.get(part) or {})


def refuse_strangers(folder: Path) -> None:
    """Raise a UserError where the folder holds more than prepared data, and so something that is not ours."""
    strangers = [path.name for path in folder.iterdir() if path.name != "data" and not path.name.startswith(".")]
    if strangers:
        raise UserError(f"the folder {folder} is not empty and holds no run ({min(strangers)} is in it): give another")


def refuse_difference(folder: Path, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise a UserError that names the first entry in which the run in the folder differs from ours."""
    ours = json.loads(to_json(ours))
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) != theirs.get(key):
            raise UserError(
                f"the folder {folder} holds another run ({key} is {theirs.get(key)} there, "
                f"{ours.get(key)} here): give another folder or delete it"
            )


def finish(folder: Path, model: PreTrainedModel, data: PreparedData, result: dict[str, Any]) -> None:
    """Save model and tokenizer, then the result that marks the run as finished, then drop the checkpoints."""
    temporary = folder / ".model-unfinished"
    for leftover in (temporary, folder / MODEL):
        shutil.rmtree(leftover, ignore_errors=True)
    # The Trainer switches the cache off for training.
    model.config.use_cache = True
    model.generation_config.pad_token_id = data.tokenizer.pad_token_id
    model.save_pretrained(temporary)
    data.tokenizer.save_pretrained(temporary)
    os.replace(temporary, folder / MODEL)
    write_json(folder / RESULT, result)
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
