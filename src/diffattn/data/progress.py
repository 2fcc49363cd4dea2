"""A progress bar that shows itself only when the work takes long enough to make one wonder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

__all__ = ["delayed_progress"]


@contextmanager
def delayed_progress(
    description: str, total: float | None, *, enabled: bool = True, delay: float = 2.0
) -> Iterator[Callable[[float], None]]:
    """Yield `advance(amount)`; a bar on standard error appears once `delay` seconds have passed.

    Args:
        description: what is being done, in a few words.
        total: the sum of all amounts, or None for work of unknown length (the bar then pulses).
        enabled: False shows nothing at all.
        delay: seconds before the bar appears; work that ends sooner stays silent.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), disable=not enabled)
    task = bar.add_task(description, total=total)
    timer = threading.Timer(delay, bar.start)
    timer.daemon = True
    if enabled:
        timer.start()
    try:
        yield lambda amount: bar.advance(task, amount)
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        if bar.live.is_started:
            bar.stop()
