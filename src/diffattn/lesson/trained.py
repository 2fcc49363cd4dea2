"""What small trained models gave: numbers that `docs/lesson_results.py` took out of the project's own experiments."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from diffattn.lesson.estimates import Estimate, mean

__all__ = ["Study", "joined", "name_of", "origin", "over_seeds", "study", "whole"]

Study = Mapping[str, Any]


@cache
def _stored() -> dict[str, Any]:
    text = files("diffattn").joinpath("lesson", "trained.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def study(name: str) -> Study:
    """What is stored of one study: "needle", "language" or "stability"."""
    found: Study = _stored()[name]
    return found


def name_of(variant: str, found: Study) -> str:
    """A variant's name for a reader."""
    return str(found["names"].get(variant, variant))


def origin(found: Study) -> str:
    """Where a study's numbers come from, in a sentence or two."""
    low, high = found["parameters"]
    models = f"Models of {low:,} to {high:,} parameters, seeds: {len(found['seeds'])}."
    if found["trial"]:
        return f"{models} These are numbers of a short trial run: they show what is measured, and nothing follows."
    return f"{models} The numbers, with versions and machine: docs/results. The command: `{found['command']}`."


def over_seeds(values: Sequence[float | None]) -> Estimate | float | None:
    """The mean with its t interval; a lone value as it is; None where a run broke down or none was made."""
    finite = whole(values)
    if finite is None:
        return None
    return mean(finite) if len(finite) > 1 else finite[0]


def whole(values: Sequence[float | None]) -> list[float] | None:
    """The values, if there are any and all are finite numbers."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return finite if finite and len(finite) == len(values) else None


def joined(words: Sequence[str]) -> str:
    """One, two and three."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
