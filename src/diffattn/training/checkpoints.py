"""Checkpoints that can be trusted: a marker written last says that one is complete."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from diffattn.errors import UserError
from diffattn.storage import read_json, write_json

__all__ = ["CheckpointMark", "check_weights", "newest_checkpoint"]

_MARK = "complete.json"


class CheckpointMark(TrainerCallback):
    """Marks each checkpoint as complete once the Trainer has written all of it.

    Args:
        progress: what to keep in the marker beside the step: seconds and memory, which the Trainer does not keep.
    """

    def __init__(self, progress: Callable[[], dict[str, Any]]) -> None:
        self._progress = progress

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take out the pickle of arguments, which nothing here reads, and write the marker."""
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        (folder / "training_args.bin").unlink(missing_ok=True)
        write_json(folder / _MARK, {"step": state.global_step, **self._progress()})


def newest_checkpoint(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest complete checkpoint with its marker; incomplete ones, left by a kill, are deleted."""
    complete = []
    for checkpoint in folder.glob("checkpoint-*"):
        mark = read_json(checkpoint / _MARK)
        if mark is None:
            shutil.rmtree(checkpoint)
        else:
            complete.append((mark["step"], checkpoint, mark))
    if not complete:
        return None
    _, checkpoint, mark = max(complete, key=lambda entry: entry[0])
    return checkpoint, mark


def check_weights(model: nn.Module, folder: Path) -> None:
    """Compare the shapes of the safetensors in `folder` with the model's.

    Raises:
        UserError: a tensor is missing, unknown to the model or of another shape.
    """
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found: dict[str, tuple[int, ...]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as weights:
            found |= {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    odd = sorted(found.keys() - wanted.keys()) or sorted(wanted.keys() - found.keys() - tied)
    differing = [name for name in sorted(found) if found[name] != wanted.get(name, found[name])]
    if not found:
        raise UserError(f"{folder} holds no *.safetensors weights: name a folder that save_pretrained wrote")
    if odd or differing:
        name = (differing or odd)[0]
        raise UserError(
            f"the weights in {folder} are another model's ({name} is {_shape(found, name)} there, "
            f"{_shape(wanted, name)} by the configuration): name another folder, or delete this one"
        )


def _shape(shapes: dict[str, tuple[int, ...]], name: str) -> str:
    return " x ".join(map(str, shapes[name])) if name in shapes else "absent"
