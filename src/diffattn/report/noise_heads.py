"""What the heads of a trained model do with the answer and the noise: a table and heat maps, layers by heads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from diffattn.report.drawing import Drawing
from diffattn.report.heat import Frame, Grid, draw_heat
from diffattn.report.noise_tables import NoiseTable
from diffattn.report.wording import MISSING, as_given, finite, join_words, quantity

__all__ = ["brief_head_tables", "head_drawings", "head_table", "length_table"]

Row = dict[str, Any]

_COLUMNS = {
    "answer_mass": "Weight of the answer",
    "sink_mass": "Weight of the sink",
    "rest_mass": "Weight of the rest",
    "negative_mass": "Weight below zero",
    "margin": "Margin",
    "margin_needed": "Margin for 10% noise",
    "strength": "Strength",
    "effective_strength": "Effective strength",
    "correlation": "Correlation",
    "lambda": "Lambda",
    "signal_to_noise": "Signal-to-noise, a position",
    "closed_signal_to_noise": "The same by the closed form",
    "gain": "Gain over the first map",
}
_BRIEF = (
    *("answer_mass", "rest_mass", "margin", "margin_needed", "effective_strength"),
    *("correlation", "lambda", "signal_to_noise", "gain"),
)
_LENGTHS = {
    "copied": "Probes copied",
    "finding": "Heads that find the answer",
    "answer_mass": "Weight of the answer",
    "rest_mass": "Weight of the rest",
    "margin": "Margin",
    "margin_needed": "Margin for 10% noise",
    "effective_strength": "Effective strength",
    "correlation": "Correlation",
    "lambda": "Lambda",
    "gain": "Gain",
}
_MOST_LISTED = 12
_MAPS = {
    "answer_mass": ("Weight of the answer", "How much of its attention each head gives to the answer."),
    "rest_mass": (
        "Weight of the rest",
        "How much each head gives to what is neither answer nor sink: the noise floor.",
    ),
    "correlation": ("Correlation of the two maps' noise", "Only what both maps have in common can be subtracted."),
}


def head_table(rows: Sequence[Row]) -> NoiseTable:
    """A line for each length, layer and head, in that order; layers and heads are counted from 1.

    Args:
        rows: each with `length`, `layer` and `head` (from 0), `finds_answer`, the measures of a head, and
            `possible_gains` by correlation; what is missing, or not finite, is a dash, and a column of dashes is left
            out.
    """
    ordered = sorted(rows, key=lambda row: (row["length"], row["layer"], row["head"]))
    return _table("heads", "The heads", ordered, tuple(_COLUMNS), _possible(rows))


def length_table(lengths: Sequence[Row]) -> NoiseTable:
    """A line for each length: medians over the heads that find the answer there."""
    kept = [name for name in _LENGTHS if any(finite(row.get(name)) is not None for row in lengths)]
    return NoiseTable(
        name="lengths",
        title="Over length: medians of the heads that find the answer",
        head=("Length", *(_LENGTHS[name] for name in kept)),
        rows=tuple((as_given(row["length"]), *(_cell(row, name) for name in kept)) for row in lengths),
    )


def brief_head_tables(results: dict[str, Any]) -> list[NoiseTable]:
    """For the terminal: the lengths, and at the longest the heads with the most weight on the answer."""
    rows, lengths = results.get("heads") or (), results.get("lengths") or ()
    if not rows:
        return []
    longest = max(row["length"] for row in rows)
    kept = sorted((row for row in rows if row["length"] == longest), key=lambda row: -row["answer_mass"])
    title = f"Heads with the most weight on the answer at {as_given(longest)} tokens"
    # What a second map could bring is a question for those that have none.
    gains = [] if any("gain" in row for row in kept) else _possible(kept)
    return [length_table(lengths), _table("heads", title, kept[:_MOST_LISTED], _BRIEF, gains)]


def _table(name: str, title: str, rows: Sequence[Row], names: Sequence[str], gains: Sequence[float]) -> NoiseTable:
    kept = [column for column in names if any(finite(row.get(column)) is not None for row in rows)]
    return NoiseTable(
        name=name,
        title=title,
        head=(
            *("Length", "Layer", "Head", "Finds it"),
            *(_COLUMNS[column] for column in kept),
            *(f"Possible gain at correlation {as_given(rho)}" for rho in gains),
        ),
        rows=tuple(
            (
                as_given(row["length"]),
                str(row["layer"] + 1),
                str(row["head"] + 1),
                "yes" if row.get("finds_answer") else "no",
                *(_cell(row, column) for column in kept),
                *(_gain(row, rho) for rho in gains),
            )
            for row in rows
        ),
    )


def _possible(rows: Sequence[Row]) -> list[float]:
    """The correlations that gains were computed for."""
    return sorted({entry["correlation"] for row in rows for entry in row.get("possible_gains") or ()})


def _gain(row: Row, correlation: float) -> str:
    gains = {entry["correlation"]: entry["gain"] for entry in row.get("possible_gains") or ()}
    found = finite(gains.get(correlation))
    return MISSING if found is None else quantity(found, 3)


def head_drawings(rows: Sequence[Row], length: int | None = None) -> list[Drawing]:
    """Heat maps of the answer's weight, the rest's and the correlation at one length, the longest where None.

    A measure that no head has, such as the correlation in ordinary attention, has no map.
    """
    lengths = {row["length"] for row in rows}
    if not lengths:
        return []
    chosen = max(lengths) if length is None else length
    kept = [row for row in rows if row["length"] == chosen]
    return [drawing for name in _MAPS if (drawing := _map(kept, name, chosen)) is not None]


def _cell(row: Row, name: str) -> str:
    found = finite(row.get(name))
    if found is not None and isinstance(row[name], int):
        return as_given(found)
    return MISSING if found is None else quantity(found, 3)


def _map(rows: Sequence[Row], name: str, length: int) -> Drawing | None:
    cells = {(row["layer"], row["head"]): found for row in rows if (found := finite(row.get(name))) is not None}
    if not cells:
        return None
    title, caption = _MAPS[name]
    title = f"{title} at {as_given(length)} tokens"
    return Drawing(
        name=f"heads-{name.replace('_', '-')}",
        title=title,
        caption=f"{caption} A row is a layer, a column a head; the fuller the colour, the larger; red is below 0.",
        alt=_alt(title, cells),
        legend=(),
        draw=partial(draw_heat, title=title, frame=_frame(cells), grids=(_grid(cells),)),
    )


def _alt(title: str, cells: dict[tuple[int, int], float]) -> str:
    largest = sorted(cells, key=lambda place: -cells[place])[:3]
    said = [f"layer {layer + 1} head {head + 1} ({quantity(cells[layer, head], 3)})" for layer, head in largest]
    return f"{title}: largest in {join_words(said)}."


def _frame(cells: dict[tuple[int, int], float]) -> Frame:
    layers, heads = ([str(one + 1) for one in range(1 + max(place[axis] for place in cells))] for axis in (0, 1))
    largest = max(abs(found) for found in cells.values()) or 1.0
    return Frame(row_label="layer", rows=layers, column_label="head", columns=heads, high=largest)


def _grid(cells: dict[tuple[int, int], float]) -> Grid:
    layers, heads = (range(1 + max(place[axis] for place in cells)) for axis in (0, 1))
    return Grid(title="", values=[[cells.get((layer, head)) for head in heads] for layer in layers])
