"""Run a task by its name."""

from __future__ import annotations

from collections.abc import Callable

from diffattn.errors import UserError
from diffattn.tasks.catalogue import TASKS
from diffattn.tasks.draws import Seed
from diffattn.tasks.examples import TextExample, TokenExamples
from diffattn.tasks.haystacks import Haystack
from diffattn.tasks.task import Task
from diffattn.tasks.texts.prompts import TextRequest

__all__ = ["TASKS", "make_texts", "make_tokens"]


def make_texts(
    name: str,
    count_tokens: Callable[[str], int],
    *,
    length: int,
    depth: float | None = None,
    examples: int,
    seed: int,
    haystack: Haystack | None = None,
) -> list[TextExample]:
    """Prompts of a task, none longer than `length` tokens.

    Args:
        name: one of `TASKS`.
        count_tokens: tokens of a text.
        length: tokens that a prompt may have; the answer comes on top.
        depth: where the (first) fact stands; see `TextRequest`. Ignored by tasks that take none.
        examples: how many; a task with several permutations gives each of them.
        seed: of all draws.
        haystack: None: the task's own.

    Raises:
        UserError: there is no such task, it has no text form, it does not take this haystack, or it does not fit.
    """
    task = _find(name)
    if task.texts is None:
        raise UserError(f"the task {name} is of tokens alone: give another")
    given = haystack or _own_haystack(task)
    if task.haystacks and given.kind not in task.haystacks:
        raise UserError(f"the task {name} takes a haystack of {' or '.join(task.haystacks)}, not of {given.kind}")
    return task.texts(
        TextRequest(count=count_tokens, length=length, depth=depth, examples=examples, seed=seed, haystack=given)
    )


def make_tokens(
    name: str, *, length: int, depth: float | None = None, examples: int, seed: Seed
) -> tuple[TokenExamples, int]:
    """Sequences of a task with common sizes, and the size of their vocabulary.

    Raises:
        UserError: there is no such task, or it has no token form.
        ValueError: the length or the depth cannot be.
    """
    form = _find(name).tokens
    if form is None:
        raise UserError(f"the task {name} is of text alone: give another")
    config = form.config(length, depth)
    return form.make(config, examples, seed), form.vocabulary_size(config)


def _find(name: str) -> Task:
    if name not in TASKS:
        raise UserError(f"there is no task {name!r}: give one of {', '.join(TASKS)}")
    return TASKS[name]


def _own_haystack(task: Task) -> Haystack:
    kind = task.haystacks[0] if task.haystacks else "filler"
    if kind == "text":
        raise UserError(f"the task {task.name} hides its needles in text: give a text, or another haystack")
    return Haystack(kind)
