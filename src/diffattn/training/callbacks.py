"""What happens around a step: records of the log, the progress bar, the stop after Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from diffattn.training.interrupt import Interrupt
from diffattn.training.settings import TrainingSettings

__all__ = ["ProgressBar", "Recorder", "StopOnInterrupt", "curves"]

_LAMBDA = ("mean", "min", "max")
_NAMES = {
    "step": "step",
    "tokens": "tokens",
    "loss": "loss",
    "grad_norm": "gradient_norm",
    "learning_rate": "learning_rate",
    "tokens_per_second": "tokens_per_second",
}


class Recorder(TrainerCallback):
    """Adds tokens, tokens a second and lambda by layer to each log entry, and counts the seconds of the steps.

    The entries lie in the Trainer's own history, which its checkpoints keep. Writing checkpoints is not counted.

    Args:
        settings: of the training.
        model: asked for `record_lambda` and `lambda_statistics`, where it has them.
        seconds: already spent on steps, before a resume.
        watch: called with the model after each step that is logged; what it returns is kept with the entry. Its time
            is not counted.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        model: PreTrainedModel,
        seconds: float = 0.0,
        watch: Callable[[PreTrainedModel], dict[str, Any]] | None = None,
    ) -> None:
        self.seconds = seconds
        self._settings = settings
        self._model = model
        self._watch = watch
        self._started: float | None = None
        self._recording = ExitStack()
        self._lambda: list[dict[str, float] | None] | None = None
        self._watched: dict[str, Any] | None = None
        self._logged = (0, seconds)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin to count tokens at the step where training begins or goes on."""
        self._logged = (state.global_step, self.seconds)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock, and have lambda recorded in a step that will be logged."""
        if self._started is None:
            self._started = self._now()
        if self._is_logged(state.global_step + 1, state) and hasattr(self._model, "record_lambda"):
            self._recording.enter_context(self._model.record_lambda())

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take lambda and the time of a step that is logged or saved."""
        if self._is_logged(state.global_step, state):
            control.should_log = True
            if hasattr(self._model, "lambda_statistics"):
                self._lambda = self._model.lambda_statistics()
        self._recording.close()
        if (control.should_log or control.should_save) and self._started is not None:
            self.seconds += self._now() - self._started
            if control.should_log and self._watch is not None:
                self._watched = self._watch(self._model)
            self._started = self._now()

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Complete the entry that the Trainer has just put into its history."""
        entry = state.log_history[-1]
        if "loss" not in entry:
            return
        step, seconds = self._logged
        tokens = (state.global_step - step) * self._settings.tokens_per_step
        self._logged = (state.global_step, self.seconds)
        entry["tokens"] = state.global_step * self._settings.tokens_per_step
        entry["tokens_per_second"] = tokens / max(self.seconds - seconds, 1e-9)
        entry["lambda"] = _by_layer(self._lambda)
        entry["watched"] = self._watched

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Stop the clock: the next step starts it again."""
        self._started = None

    def _is_logged(self, step: int, state: TrainerState) -> bool:
        return step == 1 or step % self._settings.log_steps == 0 or step == state.max_steps

    def _now(self) -> float:
        if self._model.device.type == "cuda":
            torch.cuda.synchronize(self._model.device)
        return time.perf_counter()


class StopOnInterrupt(TrainerCallback):
    """Ends the training after the step in which Ctrl-C was pressed, with a checkpoint."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Ask the Trainer for a checkpoint and for the end."""
        if self._interrupt.requested:
            control.should_save = True
            control.should_training_stop = True


class ProgressBar(TrainerCallback):
    """A bar with loss and speed on standard error; where that is no terminal, a line for every tenth of the way."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._console = Console(stderr=True)
        text = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%")
        times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
        self._bar = Progress(
            *text, TextColumn("{task.fields[note]}"), *times, console=self._console, refresh_per_second=2
        )
        self._task: TaskID | None = None
        self._note = ""
        self._tenth = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the bar, at the step where training goes on."""
        self._tenth = 10 * state.global_step // state.max_steps
        if self._console.is_terminal:
            self._task = self._bar.add_task(
                self._label, total=state.max_steps, completed=state.global_step, note=self._note
            )
            self._bar.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Advance."""
        if self._task is not None:
            self._bar.update(self._task, completed=state.global_step, note=self._note)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take up the newest loss."""
        entry = state.log_history[-1]
        if "loss" not in entry:
            return
        self._note = f"loss {entry['loss']:.3f}, {entry.get('tokens_per_second', 0):,.0f} tokens/s"
        tenth = 10 * state.global_step // state.max_steps
        if self._task is None and tenth > self._tenth:
            self._tenth = tenth
            self._console.print(f"{self._label}: {10 * tenth} %, {self._note}", highlight=False, soft_wrap=True)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Leave the bar as it is."""
        self.close()

    def close(self) -> None:
        """Stop drawing; needed where an exception ends the training."""
        if self._task is not None:
            self._bar.stop()


def curves(history: list[dict[str, Any]]) -> dict[str, Any]:
    """The log as columns: step, tokens, loss (mean since the entry before), gradient norm and learning rate of
    the step, tokens a second; lambda, None or {"mean", "min", "max"}, each a list of layers for each entry; and what
    was watched, None or a list by name."""
    entries = [entry for entry in history if "loss" in entry]
    columns: dict[str, Any] = {name: [entry.get(key) for entry in entries] for key, name in _NAMES.items()}
    recorded = [entry["lambda"] for entry in entries if entry.get("lambda")]
    columns["lambda"] = {key: [entry[key] for entry in recorded] for key in _LAMBDA} if recorded else None
    watched = [entry["watched"] for entry in entries if entry.get("watched")]
    columns["watched"] = {key: [entry[key] for entry in watched] for key in watched[0]} if watched else None
    return columns


def _by_layer(statistics: list[dict[str, float] | None] | None) -> dict[str, list[float]] | None:
    layers = [layer for layer in statistics or () if layer is not None]
    return {key: [layer[key] for layer in layers] for key in _LAMBDA} if layers else None
