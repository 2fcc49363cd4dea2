"""The table of a study's comparisons, as its report has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffattn.experiments.studies.comparisons import p_text
from diffattn.report.wording import MISSING, decimals_for, finite, quantity, signed, variant_name

__all__ = ["comparison_table"]

_NUMBERS = ("difference_mean", "interval_low", "interval_high")
_PARTS = "95% bootstrap over parts of the text"
_NOTE = "The interval over seeds covers initial weights and the order or the drawing of what is trained on"


def comparison_table(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Every comparison with its interval over seeds and, where any was taken, over parts of the text."""
    parts = any("parts" in entry for entry in comparisons)
    rows = [_row(entry, parts) for entry in comparisons]
    of_text = "; that over parts of the text covers which text was measured, these models taken as given"
    return {
        "name": "comparisons",
        "title": "Comparisons, paired by seed",
        "head": [
            "Pair",
            "Measure",
            "Mean",
            "95% t interval over seeds",
            *([_PARTS] if parts else []),
            "Corrected by Holm",
            "Smallest difference seen with 80% power",
            "Outcome",
        ],
        "rows": rows,
        "note": f"{_NOTE}{of_text if parts else ''}.",
    }


def _row(entry: Mapping[str, Any], parts: bool) -> list[str]:
    found = [finite(entry[key]) for key in _NUMBERS]
    decimals = min(4, decimals_for([value for value in found if value is not None]))
    smallest = finite(entry["detectable"])
    return [
        f"{variant_name(entry['variant'])} minus {variant_name(entry['baseline'])}",
        f"{entry['at']}, {entry['measure']}",
        MISSING if found[0] is None else signed(found[0], decimals),
        _interval(found[1], found[2], decimals),
        *([_of_parts(entry.get("parts"), decimals)] if parts else []),
        p_text(entry["p_holm"]),
        MISSING if smallest is None else quantity(smallest, 2),
        entry["outcome"],
    ]


def _interval(low: float | None, high: float | None, decimals: int) -> str:
    return MISSING if low is None or high is None else f"{signed(low, decimals)} to {signed(high, decimals)}"


def _of_parts(found: Mapping[str, Any] | None, decimals: int) -> str:
    return MISSING if found is None else _interval(found["interval_low"], found["interval_high"], decimals)
