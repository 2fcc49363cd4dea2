"""The tables of a noise result, the same for the terminal, the page and the Markdown file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffattn.report.noise_rows import SWEEPS, between, closed, measure, method_name, rows_of, value
from diffattn.report.wording import MISSING, as_given, quantity

__all__ = ["NoiseTable", "brief_tables", "noise_tables"]

Results = dict[str, Any]
Row = dict[str, Any]

_CONTROLS = "Cheaper controls on the same draws"

_MEASURES = {
    "match_weight": "Weight of the match",
    "noise_mass": "Weight of all noise",
    "negative_mass": "Weight below zero",
    "row_sum": "Row sum",
    "signal_to_noise": "Signal-to-noise, a position",
    "output_signal_to_noise": "Signal-to-noise of the output",
    "gain": "Gain over softmax, a position",
    "output_gain": "Gain over softmax, the output",
}


@dataclass(frozen=True, kw_only=True)
class NoiseTable:
    """One table: its `name`, its `title`, the `head` of each column, and `rows` of as many cells each."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def noise_tables(results: Results) -> list[NoiseTable]:
    """A table for each sweep that the results hold, then the controls'.

    A cell is what was measured with its 95% interval, then the closed form, "1,808 (1,806 to 1,810); 1,808", and
    whether that lies outside.
    """
    found = [_sweep(name, rows) for name in SWEEPS if (rows := rows_of(results, name))]
    controls = rows_of(results, "controls")
    return [*found, *([_controls(controls)] if controls else [])]


def brief_tables(results: Results) -> list[NoiseTable]:
    """The sweep over length and the controls, narrow enough for a terminal: what was measured, and one closed form."""
    head = ("Method", "Noise", "Signal to noise", "Closed form", "Output", "Gain")
    lengths = rows_of(results, "length")
    controls = rows_of(results, "controls")
    found = [
        NoiseTable(
            name="length",
            title=SWEEPS["length"],
            head=("Keys", *head),
            rows=tuple((as_given(row["x"]), *_brief(row)) for row in lengths),
        ),
        NoiseTable(name="controls", title=_CONTROLS, head=head, rows=tuple(map(_brief, controls))),
    ]
    return [table for table in found if table.rows]


def _sweep(name: str, rows: list[Row]) -> NoiseTable:
    head = (
        SWEEPS[name].partition(":")[0].partition(",")[0],
        "Method",
        "Lambda",
        *_MEASURES.values(),
        "Closed form of a position holds",
    )
    return NoiseTable(
        name=name.replace("_", "-"),
        title=SWEEPS[name],
        head=head,
        rows=tuple((as_given(row["x"]), method_name(row), _lambda(row), *_cells(row), _holds(row)) for row in rows),
    )


def _controls(rows: list[Row]) -> NoiseTable:
    return NoiseTable(
        name="controls",
        title=_CONTROLS,
        head=("Control", *_MEASURES.values(), "Closed form of a position holds"),
        rows=tuple((method_name(row), *_cells(row), _holds(row)) for row in rows),
    )


def _brief(row: Row) -> tuple[str, ...]:
    found = [value(row, name) for name in ("noise_mass", "signal_to_noise")]
    found += [closed(row, "signal_to_noise"), value(row, "output_signal_to_noise"), value(row, "gain")]
    numbers = [MISSING if one is None else quantity(one) for one in found]
    if row.get("holds") is False and found[2] is not None:
        numbers[2] += " (fails)"
    return (method_name(row).removeprefix("differential, ").partition(" (")[0], *numbers)


def _cells(row: Row) -> tuple[str, ...]:
    return tuple(_cell(row, name) for name in _MEASURES)


def _cell(row: Row, name: str) -> str:
    if not measure(row, name):
        return MISSING
    expected = closed(row, name)
    if expected is None:
        return between(row, name)
    outside = " (outside)" if measure(row, name).get("inside") is False else ""
    if name.startswith("output") and row.get("output_holds") is False:
        outside = " (beyond its range)"
    return f"{between(row, name)}; {quantity(expected)}{outside}"


def _lambda(row: Row) -> str:
    return as_given(row["lambda"])


def _holds(row: Row) -> str:
    holds = row.get("holds")
    return MISSING if holds is None else "yes" if holds else "no"
