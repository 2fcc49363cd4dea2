"""All that a noise result has to show: its drawings and tables, those of a model's heads too, and the Markdown file."""

from __future__ import annotations

from typing import Any

from diffattn.report.drawing import Drawing
from diffattn.report.noise_charts import noise_drawings
from diffattn.report.noise_heads import head_drawings, head_table, length_table
from diffattn.report.noise_tables import NoiseTable, noise_tables

__all__ = ["READING", "drawings", "markdown", "tables"]

Results = dict[str, Any]

#: How to read a cell.
READING = (
    "In each cell: what was measured, its 95% interval in brackets, then the closed form, and whether it lies outside."
)


def drawings(results: Results) -> list[Drawing]:
    """Those of the sweeps, the controls, and the heads in `results["heads"]` where a model was measured."""
    return [*noise_drawings(results), *head_drawings(results.get("heads") or ())]


def tables(results: Results) -> list[NoiseTable]:
    """Those of the sweeps, the controls, and the heads."""
    heads = results.get("heads") or ()
    of_model = [length_table(results.get("lengths") or ()), head_table(heads)] if heads else []
    return [*noise_tables(results), *of_model]


def markdown(results: Results) -> str:
    """The answers and all tables as a Markdown file."""
    parts = ["# diffattn noise", *_answers(results), READING]
    for table in tables(results):
        parts += [f"## {table.title}", _grid(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _answers(results: Results) -> list[str]:
    parts = []
    for entry in results.get("answers") or ():
        parts += [f"## {entry['question']}", "\n".join(f"- {sentence}" for sentence in entry["answer"])]
    return parts


def _grid(table: NoiseTable) -> str:
    lines = [table.head, tuple("---" for _ in table.head), *table.rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
