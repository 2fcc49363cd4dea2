"""What needles are hidden in: any text, filler that repeats, or needles of keys that are never asked for.

A haystack with noise is none of these: noise is added to embeddings, by the evaluation.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle

__all__ = ["HAYSTACKS", "Haystack"]

HAYSTACKS = ("text", "filler", "distractors")

_FILLER = (
    "The grass is green. ",
    "The sky is blue. ",
    "The sun is yellow. ",
    "Here we go. ",
    "There and back again. ",
)
# A sentence; or a line, or as much of it as 300 characters hold; or a part of a very long word. With the white space
# behind it.
_UNIT = re.compile(r"\S(?:[^\n]{0,300}?[.!?](?=\s)|[^\n]{0,300}(?!\S)|\S{0,300})\s*")


@dataclass(frozen=True)
class Haystack:
    """Where the haystack's sentences come from.

    Attributes:
        kind: "text" (sentences of `text` in their order, from a random one on, and again from its start), "filler"
            (RULER's five short sentences again and again) or "distractors" (what the task asks for, of other keys).
        text: for "text", any text, for example all documents of a corpus' split.

    Raises:
        ValueError: there is no such kind, or the text is missing, empty or not wanted.
    """

    kind: str = "filler"
    text: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in HAYSTACKS:
            raise ValueError(f"kind must be one of {', '.join(HAYSTACKS)}, got {self.kind!r}")
        if (self.kind == "text") != bool(self.text and self.text.strip()):
            raise ValueError(f"text must be given for the kind 'text', and for it alone, got kind {self.kind!r}")

    def units(self, rng: random.Random, distractor: Callable[[], str]) -> Iterator[str]:
        """Sentences without end, each with the white space behind it."""
        if self.kind == "text":
            return _sentences(self.text or "", rng)
        if self.kind == "filler":
            return cycle(_FILLER)
        return iter(lambda: distractor() + " ", "")


def _sentences(text: str, rng: random.Random) -> Iterator[str]:
    matches = _UNIT.finditer(text, rng.randrange(len(text)))
    next(matches, None)  # it begins anywhere in a sentence
    while True:
        for match in matches:
            unit = match.group()
            yield unit if unit[-1].isspace() or match.end() < len(text) else unit + "\n"
        matches = _UNIT.finditer(text)
