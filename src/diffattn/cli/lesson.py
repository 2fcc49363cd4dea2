"""`diffattn lesson`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["command"]


def command(
    number: Annotated[int | None, typer.Argument(metavar="N", help="One part, 1 to 13.", show_default="all")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page with curves instead.")
    ] = None,
    exercise: Annotated[bool, typer.Option("--exercise", help="Show the exercises.")] = False,
    answer: Annotated[bool, typer.Option("--answer", help="Show the exercises with their answers.")] = False,
) -> None:
    """Teach differential attention in thirteen parts: what is measured beside what is derived.

    It needs nothing installed: `python src/diffattn/lesson/main.py` is the same.

    \b
    Examples:
      diffattn lesson
      diffattn lesson 5 --html lesson.html
      diffattn lesson 6 --exercise
      diffattn lesson 6 --answer
    """
    from diffattn.lesson.pages.course import teach

    teach(number, html=html, exercise=exercise, answer=answer)
