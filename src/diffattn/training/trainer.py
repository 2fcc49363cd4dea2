"""One training run: a model built from its configuration, trained, saved; interrupted at any time and gone on with."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel, Trainer

import diffattn.models  # noqa: F401  registers the models with the Auto classes
from diffattn.data import PreparedData, TokenBlocks
from diffattn.errors import UserError
from diffattn.storage import make_folder, read_json
from diffattn.training.callbacks import ProgressBar, Recorder, StopOnInterrupt, curves
from diffattn.training.checkpoints import CheckpointMark, check_weights, newest_checkpoint
from diffattn.training.huggingface import make_trainer, quiet
from diffattn.training.interrupt import Interrupt
from diffattn.training.memory import PeakMemory
from diffattn.training.order import OrderedBlocks
from diffattn.training.run_folder import CHECKPOINTS, RESULT, claim, finish
from diffattn.training.settings import TrainingSettings

__all__ = ["Watch", "build_model", "choose_device", "train"]

Watch = Callable[[PreTrainedModel], dict[str, Any]]


def train(
    config: PretrainedConfig,
    data: PreparedData,
    settings: TrainingSettings,
    folder: Path,
    *,
    resume: bool = True,
    progress: bool = True,
    label: str = "training",
    origin: dict[str, Any] | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train the model that `config` describes and save it as `folder/model`; a finished run is not run again.

    The order of tokens depends on settings and seed alone. Ctrl-C ends the running step, writes a checkpoint and
    raises KeyboardInterrupt; the same call then goes on from there, as it does after a kill from the last one.

    Args:
        config: of any causal language model of Transformers; ours also record lambda.
        data: the prepared corpus; its tokenizer is saved with the model.
        settings: everything else that decides what comes out.
        folder: of this one run: `run.json` (whose it is), `checkpoints`, `model`, `training.json`.
        resume: False throws an unfinished run's checkpoints away first.
        progress: show a bar.
        label: what the bar calls the run.
        origin: kept in `run.json` for whoever evaluates the run: where its corpus came from.
        watch: measures the model after each step that is logged; what it returns, numbers by name, is in the curves.
            Its time is not counted.

    Returns:
        What `training.json` holds: "settings", "tokens", "steps", "seconds" (of the steps, without checkpoints),
        "tokens_per_second", "peak_memory_bytes", "peak_memory_kind", "device", "curves" (see `callbacks.curves`).

    Raises:
        UserError: the folder holds another run, the corpus is shorter than one context, the context longer than
            the model's, or the vocabulary too small.
    """
    folder = Path(folder)
    config = _complete_config(config, data, settings)
    examples = OrderedBlocks(TokenBlocks(data.tokens("train"), settings.context), settings)
    claim(make_folder(folder), config, data, settings, origin)
    result = read_json(folder / RESULT)
    if result is None:
        with quiet():
            _run(config, data, settings, examples, folder, resume, progress, label, watch)
        # As stored, so that the first call returns what every later one does.
        result = read_json(folder / RESULT)
    return result


def build_model(config: PretrainedConfig, seed: int) -> PreTrainedModel:
    """A model with fresh weights that depend on configuration and seed alone."""
    transformers.set_seed(seed)
    return AutoModelForCausalLM.from_config(copy.deepcopy(config))


def choose_device() -> torch.device:
    """CUDA where there is one, else the CPU; Apple's GPUs, on which nothing here was tried, are not taken."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _run(
    config: PretrainedConfig,
    data: PreparedData,
    settings: TrainingSettings,
    examples: OrderedBlocks,
    folder: Path,
    resume: bool,
    progress: bool,
    label: str,
    watch: Watch | None,
) -> None:
    model = build_model(config, settings.seed).to(choose_device())
    checkpoint, mark = _starting_point(folder / CHECKPOINTS, resume, model)
    memory = PeakMemory(model.device)
    recorder = Recorder(settings, model, seconds=mark.get("seconds", 0.0), watch=watch)

    def so_far() -> dict[str, Any]:
        peaks = [peak for peak in (memory.bytes(), mark.get("peak_memory_bytes")) if peak]
        return {"seconds": recorder.seconds, "peak_memory_bytes": max(peaks, default=None)}

    bar = ProgressBar(label)
    with Interrupt() as interrupt:
        trainer = make_trainer(model, examples, settings, folder / CHECKPOINTS)
        # In this order: the recorder must see that the stop asked for a checkpoint, the bar what was recorded.
        for callback in (StopOnInterrupt(interrupt), recorder, CheckpointMark(so_far), *([bar] if progress else ())):
            trainer.add_callback(callback)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        finally:
            bar.close()
        if trainer.state.global_step == settings.steps:
            measured = {**so_far(), "peak_memory_kind": memory.kind}
            finish(folder, model, data, _result(settings, trainer, measured))
    if interrupt.requested:
        raise KeyboardInterrupt


def _complete_config(config: PretrainedConfig, data: PreparedData, settings: TrainingSettings) -> PretrainedConfig:
    longest = getattr(config, "max_position_embeddings", None)
    if longest is not None and settings.context > longest:
        raise UserError(
            f"a context of {settings.context} tokens is longer than the model's {longest}: use at most {longest}"
        )
    if config.vocab_size < data.vocab_size:
        raise UserError(
            f"the model has {config.vocab_size} tokens, the corpus was prepared with {data.vocab_size}: "
            "prepare it with the model's vocabulary"
        )
    config = copy.deepcopy(config)
    config.bos_token_id = data.tokenizer.bos_token_id
    config.eos_token_id = data.tokenizer.eos_token_id
    # A padding token's embedding is never trained; here the same token begins every document.
    config.pad_token_id = None
    return config


def _starting_point(folder: Path, resume: bool, model: PreTrainedModel) -> tuple[Path | None, dict[str, Any]]:
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
    found = newest_checkpoint(folder)
    if found is None:
        return None, {}
    check_weights(model, found[0])
    return found


def _result(settings: TrainingSettings, trainer: Trainer, measured: dict[str, Any]) -> dict[str, Any]:
    tokens = settings.steps * settings.tokens_per_step
    return {
        "settings": settings.to_dict(),
        "tokens": tokens,
        "steps": settings.steps,
        **measured,
        "tokens_per_second": tokens / max(measured["seconds"], 1e-9),
        "device": str(trainer.model.device),
        "curves": curves(trainer.state.log_history),
    }
