"""What a task is to a command that runs it by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from diffattn.tasks.draws import Seed
from diffattn.tasks.examples import TextExample, TokenExamples
from diffattn.tasks.texts.prompts import TextRequest

__all__ = ["Task", "TokenForm"]


@dataclass(frozen=True)
class TokenForm:
    """A task as tokens.

    Attributes:
        config: the configuration for a length in tokens and a depth (None: anywhere).
        make: examples of a configuration, a count and a seed.
        vocabulary_size: tokens that a configuration's sequences are of.
    """

    config: Callable[[int, float | None], Any]
    make: Callable[[Any, int, Seed], TokenExamples]
    vocabulary_size: Callable[[Any], int]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task by name.

    Attributes:
        name: what to call it.
        summary: what it is, in one line.
        texts: prompts for a request; None: there is no text form.
        tokens: its token form with common sizes; None: there is none.
        haystacks: kinds of haystack that its text form takes, its own first; empty: it makes all of its text.
        takes_depth: whether a depth means anything to it.
    """

    name: str
    summary: str
    texts: Callable[[TextRequest], list[TextExample]] | None = None
    tokens: TokenForm | None = None
    haystacks: tuple[str, ...] = ()
    takes_depth: bool = True
