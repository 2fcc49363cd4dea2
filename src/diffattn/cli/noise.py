"""`diffattn noise`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffattn.cli.options import JsonFile, check_json, loading, report_console, write_report_json
from diffattn.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["command"]


def command(
    length: Annotated[int, typer.Option(help="Keys that the query sees, the match among them.")] = 131_072,
    lengths: Annotated[
        str | None,
        typer.Option(help="Lengths of the sweep over length, with commas.", show_default="1,024 to 262,144, doubling"),
    ] = None,
    margin: Annotated[float, typer.Option(help="The match's score above the mean of the others.")] = 8.0,
    strength: Annotated[float, typer.Option(help="Standard deviation of the others' scores.")] = 1.0,
    correlation: Annotated[float, typer.Option(help="Between the two maps' noise, -1 to 1.")] = 0.5,
    second_margin: Annotated[float, typer.Option(help="The match's margin in the second map.")] = 0.0,
    lam: Annotated[float, typer.Option("--lambda", help="How much of the second map is taken away.")] = 0.5,
    draws: Annotated[int, typer.Option(help="Draws of each setting; more make the intervals narrower.")] = 64,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    base_length: Annotated[
        int, typer.Option(help="Where log-n scaling, a control, leaves the scores as they are.")
    ] = 1024,
    top_k: Annotated[int, typer.Option(help="How many keys top-k, a control, keeps.")] = 64,
    gate: Annotated[float, typer.Option(help="The factor of the gate, a control.")] = 0.5,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for results.json, tables.md, report.html and each plot as PNG and SVG."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Draw the noise of attention, and say what a second map takes away of it: the floor over length, signal-to-noise
    of softmax and differential attention measured beside the closed form, and cheaper ways to the same end.

    \b
    Examples:
      diffattn noise
      diffattn noise --length 32768 --margin 10 --strength 1.5 --correlation 0.9 --lambda 0.8
      diffattn noise --draws 256 --out runs/noise
    """
    check_json(json_file)
    numbers = {} if lengths is None else {"lengths": _numbers(lengths)}
    with loading():
        from diffattn.experiments.environment import command_line
        from diffattn.experiments.noise import NoiseRequest, reserved, run_noise, write_results

    request = NoiseRequest(
        length=length,
        margin=margin,
        strength=strength,
        correlation=correlation,
        second_margin=second_margin,
        lam=lam,
        draws=draws,
        seed=seed,
        base_length=base_length,
        top_k=top_k,
        gate=gate,
        **numbers,
    )
    with reserved(out) if out else nullcontext() as folder:
        results = run_noise(request, command=command_line())
        if folder:
            write_results(results, folder, progress=True)
    write_report_json(json_file, results)
    _show(report_console(json_file), results, out)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UserError(f"--lengths: expected whole numbers with commas, such as 1024,65536, got {text!r}") from None


def _show(console: Console, results: dict[str, Any], out: Path | None) -> None:
    """The sweep over length and the controls, then the answers."""
    from rich import box
    from rich.table import Table

    from diffattn.report.noise_tables import brief_tables

    for brief in brief_tables(results):
        table = Table(title=brief.title, title_justify="left", box=box.SIMPLE_HEAD)
        for title in brief.head:
            table.add_column(title, justify="left" if title == "Method" else "right")
        for row in brief.rows:
            table.add_row(*row)
        console.print(table, soft_wrap=False)
    for entry in results["answers"]:
        console.print(
            f"{entry['question']}", *(f"  {sentence}" for sentence in entry["answer"]), sep="\n", markup=False
        )
    if out:
        console.print(f"\nresults: {out / 'results.json'}\nreport:  {out / 'report.html'}", markup=False)
