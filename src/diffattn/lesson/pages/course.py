"""The parts in their order, and the walk through them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from diffattn.errors import UserError
from diffattn.lesson.pages.part import Part

__all__ = ["FIRST", "LAST", "part", "parts", "teach"]

#: The module of each part; a part is imported when it is its turn.
_MODULES = (
    "noise_floor",
    "from_nothing",
    "first_version",
    "second_version",
    "cancellation",
    "sweep",
    "counting",
    "grouped",
    "decoding",
    "needle",
    "small_model",
    "behind_norm",
    "when",
)
FIRST, LAST = 1, len(_MODULES)
#: Seconds of silence after which a step says that it is being computed.
PATIENCE = 2.0


def part(number: int) -> Part:
    """One part by its number.

    Raises:
        UserError: there is no such part.
    """
    if not FIRST <= number <= LAST:
        raise UserError(f"there is no part {number}: name one from {FIRST} to {LAST}, or none for all")
    found: Part = import_module(f"diffattn.lesson.parts.{_MODULES[number - 1]}").PART
    return found


def parts(number: int | None = None) -> Iterator[Part]:
    """The part of that number, or all in their order."""
    return map(part, range(FIRST, LAST + 1) if number is None else [number])


def say(text: str) -> None:
    """Print at once, for whoever reads along through a pipe."""
    print(text, flush=True)


def teach(
    number: int | None = None,
    *,
    html: Path | None = None,
    exercise: bool = False,
    answer: bool = False,
    show: Callable[[str], None] = say,
) -> None:
    """Walk through the lesson.

    Args:
        number: of one part; None for all, with what stands around them.
        html: write one self-contained page to this file instead of showing text. It is written whole or not at all.
        exercise: show the exercises instead, without answers.
        answer: show the exercises with their answers.
        show: takes each piece of text as soon as it is there.

    Raises:
        UserError: no such part, a file that cannot be written, or a page asked for together with exercises.
    """
    if number is not None:
        part(number)  # refuse it before anything is shown
    chosen = parts(number)
    if html is not None and (exercise or answer):
        raise UserError("the page has the exercises already: leave out --exercise and --answer, or --html")
    if html is not None:
        _write(html, chosen, number is None)
        show(f"wrote {html}")
    elif exercise or answer:
        _show_exercises(chosen, answer, show)
    else:
        _show_parts(chosen, number is None, show)


def _show_parts(chosen: Iterator[Part], whole: bool, show: Callable[[str], None]) -> None:
    from diffattn.lesson.pages import terminal

    if whole:
        show(terminal.opening(parts()))
    for one in chosen:
        show(terminal.title(one))
        curves = False
        for index, step in enumerate(one.steps, 1):
            with _working(f"part {one.number}, step {index}"):
                made = step()
            show(terminal.step(made, f"{one.number}.{index}"))
            curves = curves or bool(made.charts)
        show(terminal.hint(one.number, curves))
    if whole:
        show(terminal.closing())


def _show_exercises(chosen: Iterator[Part], answer: bool, show: Callable[[str], None]) -> None:
    from diffattn.lesson.pages import terminal

    for one in chosen:
        show(terminal.exercises(one, one.exercises(), answer))
    if not answer:
        show("\nThe answers: --answer")


def _write(path: Path, chosen: Iterator[Part], whole: bool) -> None:
    from diffattn.lesson.pages import page

    page.check(path)
    made = []
    for one in chosen:
        with _working(f"part {one.number}"):
            made.append((one, [step() for step in one.steps], one.exercises()))
    page.write(path, page.render(made, whole))


@contextmanager
def _working(what: str) -> Iterator[None]:
    """Say on standard error that something is still being computed, where it takes long."""
    notice = threading.Timer(PATIENCE, lambda: print(f"working on {what}", file=sys.stderr, flush=True))
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()
