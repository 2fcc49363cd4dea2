"""What compared pairs of trained models say, in words that their numbers choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diffattn.lesson.trained import Study, joined, name_of

__all__ = ["outcomes"]

Entry = Mapping[str, Any]
_WORDS = {
    "supported": "better",
    "contradicted": "worse",
    "not resolved": "not told apart",
    "not measured": "not compared",
}


def outcomes(found: Study, entries: Sequence[Entry], label: Callable[[Entry], str]) -> str:
    """One sentence: for each variant where it is better than its baseline, worse, or not told apart from it.

    Args:
        found: the study.
        entries: of its `comparisons`.
        label: what an entry is about, in words.
    """
    said = []
    for variant in dict.fromkeys(entry["variant"] for entry in entries):
        own = [entry for entry in entries if entry["variant"] == variant]
        parts = [_part(outcome, [e for e in own if e["outcome"] == outcome], label) for outcome in _WORDS]
        said.append(f"{name_of(variant, found)}: {', '.join(part for part in parts if part)}")
    return f"{'; '.join(said)}." if said else "Nothing was compared."


def _part(outcome: str, entries: Sequence[Entry], label: Callable[[Entry], str]) -> str:
    if not entries:
        return ""
    words = f"{_WORDS[outcome]} ({joined([label(entry) for entry in entries])}"
    smallest = [entry["detectable"] for entry in entries if entry["detectable"] is not None]
    if outcome == "not resolved" and smallest:
        low, high = (f"{edge:.2g}" for edge in (min(smallest), max(smallest)))
        words += f"; a difference under {low if low == high else f'{low} to {high}'} {entries[0]['unit']} stays unseen"
    return f"{words})"
