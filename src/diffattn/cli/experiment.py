"""`diffattn experiment`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffattn.cli.options import (
    Data,
    JsonFile,
    check_output,
    loading,
    numbers_of,
    refuse_given,
    report_console,
    resumable,
    write_report_json,
)

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["command", "show_experiment"]


def command(
    ctx: typer.Context,
    study: Annotated[str, typer.Argument(help="needle, language, stability, lambda or scale.", metavar="STUDY")],
    preset: Annotated[str, typer.Option(help="The size: default (two cores) or large (a GPU).")] = "default",
    data: Data = "stdlib",
    seeds: Annotated[int | None, typer.Option(help="Runs of each variant.", show_default="the preset's")] = None,
    variants: Annotated[
        str | None,
        typer.Option(
            help="Of softmax, gated, logn, sink, wide (softmax with V2's parameters), v1, v1-no-norm, v2.",
            show_default="the preset's",
        ),
    ] = None,
    rates: Annotated[
        str | None, typer.Option(help="Learning rates to try, such as 1e-3,3e-3.", show_default="the preset's")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Runs at a time, a process each.", show_default="one a core; one on a GPU"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for this study.", show_default="a folder in runs/, named by the request"),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Run one of the studies that settle what differential attention does, with its controls, and say what came of it.
    Hypotheses and stopping rule are written into the folder before the first run; results.json, report.html and the
    charts at its end. Stopped at any time, the same command goes on.

    \b
    needle     retrieval in haystacks of up to 8 times the length trained on
    language   text at equal tokens, parameters, training FLOPs and wall time
    stability  learning rates from 1e-3 to 1e-1, with and without clipping
    lambda     fixed, a layer's, a head's or a token's own; from where it starts
    scale      three sizes, and whether the gain grows

    \b
    Examples:
      diffattn experiment needle
      diffattn experiment language --data wikitext-2 --out runs/language
      diffattn experiment stability --rates 3e-3,3e-2 --variants softmax,v1,v1-no-norm,v2
    """
    check_output(json_file)
    with loading():
        from diffattn.experiments.environment import command_line
        from diffattn.experiments.studies.jobs import default_workers
        from diffattn.experiments.studies.study import choose, run_study

    names = None if variants is None else tuple(name.strip() for name in variants.split(",") if name.strip())
    tried = None if rates is None else numbers_of("rates", rates)
    request = choose(study, preset, data, seeds=seeds, variants=names, rates=tried)
    if not request.module.TEXT:
        refuse_given(ctx, ("data",), "with the studies of text")
    folder = out or Path("runs") / request.folder_name
    at_a_time = workers or default_workers()
    with resumable(command_line()):
        results = run_study(request, folder, command=command_line(), workers=at_a_time)
    write_report_json(json_file, results)
    show_experiment(report_console(json_file), results, folder)


def show_experiment(console: Console, results: dict[str, Any], folder: Path) -> None:
    """The tables, then the verdict, each hypothesis's outcome, failures and limits."""
    from diffattn.cli.tables import print_table

    for table in results["tables"]:
        console.print(table["title"], style="bold", markup=False)
        print_table(console, table["head"], table["rows"])
        console.print(table["note"] + "\n", markup=False)
    said = [*results["verdict"], *(entry["sentence"] for entry in results["outcomes"])]
    for sentence in dict.fromkeys([*said, *results["failures"], *results["limits"]]):
        console.print(sentence, markup=False)
    console.print(f"\nresults: {folder / 'results.json'}\nreport:  {folder / 'report.html'}", markup=False)
