"""Reading the rows of a noise result: those of a sweep, their measures, and the names that a reader sees."""

from __future__ import annotations

from typing import Any

from diffattn.report.wording import as_given, finite, percent, quantity

__all__ = [
    "METHODS",
    "SWEEPS",
    "between",
    "closed",
    "find",
    "measure",
    "method_name",
    "rows_of",
    "share_between",
    "value",
]

Row = dict[str, Any]

#: What each sweep is over, as a table's title and a plot's axis have it.
SWEEPS = {
    "length": "Length: keys that the query sees",
    "margin": "Margin of the match over the noise",
    "strength": "Strength of the noise",
    "independent": "Strength of noise that the maps do not share",
    "correlation": "Correlation of the two maps' noise",
    "lambda": "Lambda",
    "second_margin": "Margin of the match in the second map",
    "failing": "Strength of the noise, where the closed form fails",
}

METHODS = {
    "softmax": "softmax",
    "given": "differential",
    "best": "differential, best lambda",
    "temperature": "best temperature",
    "log_n": "log-n scaling",
    "sink": "sink",
    "gate": "gate",
    "top_k": "top-k",
}

_PARAMETERS = {
    "temperature": "scores times {}",
    "log_n": "scores times {}",
    "sink": "a score of {}",
    "gate": "output times {}",
    "top_k": "{} keys kept",
}


def rows_of(results: dict[str, Any], sweep: str, method: str | None = None) -> list[Row]:
    """The rows of a sweep, of one method where it is named, in the order of the results."""
    rows = [row for row in results.get("rows") or () if row.get("sweep") == sweep]
    return [row for row in rows if method is None or row.get("method") == method]


def find(results: dict[str, Any], sweep: str, method: str, x: float | None) -> Row | None:
    """The row of `method` at `x`, or None."""
    return next((row for row in rows_of(results, sweep, method) if row.get("x") == x), None)


def measure(row: Row | None, name: str) -> dict[str, Any]:
    """A measure of the row: `value`, `low`, `high`, `error`, `closed_form`, `inside`; empty where there is none."""
    return ((row or {}).get("measures") or {}).get(name) or {}


def value(row: Row | None, name: str) -> float | None:
    """What was measured, or None."""
    return finite(measure(row, name).get("value"))


def closed(row: Row | None, name: str) -> float | None:
    """What the closed form says, or None."""
    return finite(measure(row, name).get("closed_form"))


def between(row: Row | None, name: str) -> str:
    """A measure with its interval in words: "1,808 (1,806 to 1,810)"."""
    return _between(measure(row, name), lambda number: quantity(number))


def share_between(row: Row | None, name: str) -> str:
    """The same for a share of 1: "98.64% (98.63% to 98.65%)"."""
    return _between(measure(row, name), lambda share: percent(share, 4))


def method_name(row: Row) -> str:
    """The method of a row with its number: "differential, lambda 0.5", "top-k (64 keys kept)"."""
    name, lam = str(row.get("method")), finite(row.get("lambda"))
    if name == "given" and lam is not None:
        return f"differential, lambda {as_given(lam)}"
    shown, parameter = METHODS.get(name, name), finite(row.get("parameter"))
    if parameter is None or name not in _PARAMETERS:
        return shown
    return f"{shown} ({_PARAMETERS[name].format(as_given(parameter))})"


def _between(found: dict[str, Any], show: Any) -> str:
    middle, low, high = (finite(found.get(key)) for key in ("value", "low", "high"))
    if middle is None:
        return "not finite"
    if low is None or high is None or show(low) == show(middle) == show(high):
        return show(middle)
    return f"{show(middle)} ({show(low)} to {show(high)})"
