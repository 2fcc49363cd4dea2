"""Ctrl-C that lets the running step end, so that a checkpoint can be written."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any

__all__ = ["Interrupt"]


class Interrupt:
    """A context in which the first Ctrl-C sets `requested`, and a second one raises KeyboardInterrupt at once.

    Outside the main thread, where Python delivers no signals, it does nothing.

    Attributes:
        requested: someone pressed Ctrl-C.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        print("\nstopping after this step, with a checkpoint (Ctrl-C again: at once)", file=sys.stderr, flush=True)
