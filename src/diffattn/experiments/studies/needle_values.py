"""Single numbers out of the needle study's runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from diffattn.report.wording import finite

__all__ = ["cells", "over_seeds", "rate_at", "runs_of", "usable", "variants_of"]

Run = Mapping[str, Any]


def runs_of(results: Mapping[str, Any], condition: str, variant: str) -> list[Run]:
    """One variant's runs of one condition, a seed each."""
    return [run for run in results["runs"] if run["condition"] == condition and run["variant"] == variant]


def variants_of(results: Mapping[str, Any], condition: str) -> list[str]:
    """The variants that were trained on a condition."""
    return [name for name in results["variants"] if runs_of(results, condition, name)]


def usable(runs: Sequence[Run]) -> bool:
    """Whether there is a run, and every one learned the task at the length trained on."""
    return bool(runs) and all(run["learned"] for run in runs)


def rate_at(run: Run, length: int, what: str) -> float | None:
    """`accuracy`, `fabrication`, `false_citation` or `refusal` at a length; None where the run broke down."""
    measured = (run["retrieval"].get(str(length)) or {}).get("rates") or {}
    return finite((measured.get(what) or {}).get("share"))


def cells(run: Run, length: int) -> list[float | None]:
    """Accuracy by depth."""
    measured = (run["retrieval"].get(str(length)) or {}).get("rates") or {}
    return [finite(entry["accuracy"]["share"]) for entry in measured.get("by_depth") or ()]


def over_seeds(values: Sequence[float | None]) -> tuple[float, float, float] | None:
    """Mean, lowest and highest; None where a value is missing or there is none."""
    whole = [value for value in values if value is not None]
    if not whole or len(whole) < len(values):
        return None
    return fmean(whole), min(whole), max(whole)
