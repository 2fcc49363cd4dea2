"""Read the lesson's tables and text."""

from __future__ import annotations

from diffattn.lesson.pages import terminal
from diffattn.lesson.pages.part import Table

ERRORS = 4.5  # standard errors; one in 150,000 by chance


def column(table: Table, name: str, kind: str = "derived"):
    index = [(one.name, one.kind) for one in table.columns].index((name, kind))
    return [row[index] for row in table.rows]


def text_of(made, number):
    part, walked, _ = made[number - 1]
    return terminal.title(part) + "".join(terminal.step(step, f"{number}.1") for step in walked)
