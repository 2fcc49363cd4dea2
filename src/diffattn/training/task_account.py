"""What came of each step of a training on a task."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from diffattn.training.curriculum import Curriculum
from diffattn.training.task_settings import TaskTraining

__all__ = ["TaskAccount", "Watch"]

Watch = Callable[[PreTrainedModel, dict[str, Any]], None]

_COLUMNS = ("step", "tokens", "loss", "accuracy", "gradient_norm", "length")


class TaskAccount(TrainerCallback):
    """Counts steps, lets the curriculum go on, keeps the curves, and ends the training when nothing more is to come.

    Args:
        settings: of the training.
        watch: called with the model and each new entry of the curves.

    Attributes:
        curriculum: whose length the next step takes.
        diverged_at: the first step, counted from 1, whose loss was not finite; None where there was none.
    """

    def __init__(self, settings: TaskTraining, watch: Watch | None = None) -> None:
        self.curriculum = Curriculum(settings)
        self.diverged_at: int | None = None
        self._settings = settings
        self._watch = watch
        self._started: float | None = None
        self._seconds = 0.0
        self._steps = self._tokens = self._length = 0
        self._since: list[tuple[float, float]] = []
        self._entries: list[dict[str, Any]] = []

    def take(self, loss: float, accuracy: float, tokens: int) -> None:
        """Count a step, after its forward."""
        self._steps += 1
        self._tokens += tokens
        self._length = self.curriculum.length
        self._since.append((loss, accuracy))
        if not math.isfinite(loss):
            self.diverged_at = self._steps

    def result(self) -> dict[str, Any]:
        """What came of all steps, as JSON has it.

        Returns:
            "settings", "steps", "tokens", "seconds" (drawing the examples and watching among them), "reached" (see
            `Curriculum`), "diverged_at", and "curves": columns step, tokens, loss and accuracy (means since the entry
            before), gradient_norm (before clipping) and length, both of that step. A step that diverged is in no
            entry.
        """
        return {
            "settings": self._settings.to_dict(),
            "steps": self._steps,
            "tokens": self._tokens,
            "seconds": self._seconds,
            "reached": self.curriculum.reached,
            "diverged_at": self.diverged_at,
            "curves": {name: [entry[name] for entry in self._entries] for name in _COLUMNS},
        }

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock at the first step."""
        if self._started is None:
            self._started = time.perf_counter()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Go on to the next length or to the end."""
        assert self._started is not None
        self._seconds = time.perf_counter() - self._started
        if self.diverged_at is not None:
            control.should_training_stop = True
            return
        self.curriculum.take(self._since[-1][1], self._steps, self._tokens, self._seconds)
        last = self.curriculum.finished or self._steps == self._settings.max_steps
        control.should_training_stop = last
        control.should_log = last or self._steps == 1 or self._steps % self._settings.log_every == 0

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Add an entry to the curves, with the gradient norm that the Trainer has just put into its history."""
        newest = state.log_history[-1]
        if "grad_norm" not in newest:
            return
        loss, accuracy = np.mean(self._since, axis=0).tolist()
        self._since.clear()
        values = (self._steps, self._tokens, loss, accuracy, newest["grad_norm"], self._length)
        self._entries.append(dict(zip(_COLUMNS, values, strict=True)))
        if self._watch is not None:
            self._watch(kwargs["model"], dict(self._entries[-1]))
