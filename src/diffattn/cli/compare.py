"""`diffattn compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffattn.cli.options import (
    BatchSize,
    Context,
    Data,
    Dtype,
    JsonFile,
    LearningRate,
    MatchParameters,
    PresetName,
    Tokens,
    check_output,
    loading,
    report_console,
    resumable,
    write_report_json,
)

if TYPE_CHECKING:
    from rich.console import Console

    from diffattn.report.table import Column

__all__ = ["command"]


def command(
    variants: Annotated[str, typer.Option(help="Attentions to compare: softmax, gated, v1, v2.")] = "softmax,v1,v2",
    seeds: Annotated[int, typer.Option(help="How many seeds; one cannot tell a difference from chance.")] = 1,
    preset: PresetName = "quick",
    data: Data = "stdlib",
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for this comparison.", show_default="a folder in runs/, named by the request"),
    ] = None,
    match_parameters: MatchParameters = True,
    tokens: Tokens = None,
    context: Context = None,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    dtype: Dtype = None,
    json_file: JsonFile = None,
) -> None:
    """Train models that differ only in their attention on the same tokens in the same order, measure them, and say
    which is better. Writes results.json and report.html. Stopped at any time, the same command goes on.

    \b
    Examples:
      diffattn compare
      diffattn compare --seeds 3 --variants softmax,gated,v2
      diffattn compare --preset small --data wikitext-2 --out runs/wikitext
    """
    check_output(json_file)
    with loading():
        from diffattn.experiments.compare import compare
        from diffattn.experiments.environment import command_line
        from diffattn.experiments.presets import find_preset, override
        from diffattn.experiments.request import CompareRequest

    changes = {"tokens": tokens, "context": context, "batch_size": batch_size}
    size = override(find_preset(preset), **changes, learning_rate=learning_rate, dtype=dtype)
    names = tuple(name.strip() for name in variants.split(",") if name.strip())
    request = CompareRequest(preset=size, variants=names, seeds=seeds, data=data, match_parameters=match_parameters)
    folder = out or Path("runs") / request.folder_name
    with resumable(command_line()):
        results = compare(request, folder, command=command_line())
    write_report_json(json_file, results)
    _show(report_console(json_file), results, folder)


def _heading(column: Column) -> str:
    """The title and its note, but for which way is better: the verdict says that."""
    note = "; ".join(part for part in column.note.split("; ") if not part.endswith(" is better"))
    return f"{column.title} ({note})" if note else column.title


def _show(console: Console, results: dict[str, Any], folder: Path) -> None:
    """The table, a variant a column, then the verdict."""
    from rich.table import Table

    from diffattn.report.table import COLUMNS, rows

    first, *others = zip(COLUMNS, *rows(results), strict=True)
    table = Table("", *map(str, first[1:]))
    for column, *cells in others:
        table.add_row(_heading(column), *map(str, cells))
    console.print(table, soft_wrap=False)
    for sentence in results["verdict"]:
        console.print(sentence, markup=False)
    console.print(f"\nresults: {folder / 'results.json'}\nreport:  {folder / 'report.html'}", markup=False)
