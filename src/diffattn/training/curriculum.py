"""Which length comes next, and what it took to learn each."""

from __future__ import annotations

from collections import deque
from typing import Any

from diffattn.training.task_settings import TaskTraining

__all__ = ["Curriculum"]


class Curriculum:
    """The present length, and steps, tokens and seconds to the threshold at each.

    Attributes:
        reached: for each length of the settings {"length", "steps", "tokens", "seconds"}, counted from the beginning
            of the training; None where the threshold was not reached.
        steps_left: to take after the threshold of the last length; None before it is reached.
    """

    def __init__(self, settings: TaskTraining) -> None:
        self.reached: list[dict[str, Any]] = [
            {"length": length, "steps": None, "tokens": None, "seconds": None} for length in settings.lengths
        ]
        self.steps_left: int | None = None
        self._settings = settings
        self._index = 0
        self._recent: deque[float] = deque(maxlen=settings.window)

    @property
    def length(self) -> int:
        """Tokens of the present sequences."""
        return self._settings.lengths[self._index]

    @property
    def finished(self) -> bool:
        """All lengths are learned, and the extra steps taken."""
        return self.steps_left == 0

    def take(self, accuracy: float, steps: int, tokens: int, seconds: float) -> None:
        """Count a step at the present length, and go on to the next one where the threshold is reached.

        Args:
            accuracy: in this step, of equally many questions as in each other step at this length.
            steps, tokens, seconds: so far, this step among them.
        """
        if self.steps_left is not None:
            self.steps_left -= 1
            return
        self._recent.append(accuracy)
        window = self._settings.window
        if len(self._recent) < window or sum(self._recent) < self._settings.threshold * window:
            return
        self.reached[self._index].update(steps=steps, tokens=tokens, seconds=seconds)
        self._recent.clear()
        if self._index + 1 < len(self.reached):
            self._index += 1
        else:
            self.steps_left = self._settings.extra_steps
