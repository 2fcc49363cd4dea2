"""`diffattn noise`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffattn.cli.options import (
    JsonFile,
    check_output,
    loading,
    numbers_of,
    refuse_given,
    report_console,
    whole_numbers,
    write_report_json,
)

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["command"]

#: Options that go into either request as they are.
_DRAWN = (
    *("length", "margin", "strength", "correlation", "second_margin", "lam"),
    *("draws", "seed", "base_length", "top_k", "gate"),
)
_OF_DRAWS = tuple(name for name in _DRAWN if name != "seed")
_OF_MODELS = ("data", "probes", "depths", "span", "split")
_TRAINED = ("run", "model", "data", "probes", "span", "split", "seed")


def command(
    ctx: typer.Context,
    length: Annotated[int, typer.Option(help="Keys that the query sees, the match among them.")] = 131_072,
    lengths: Annotated[
        str | None,
        typer.Option(help="Lengths to sweep over, such as 1K,64K.", show_default="1K to 256K; of a model 32 to 2K"),
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
    run: Annotated[
        Path | None, typer.Option(help="Measure a trained model instead: a run's folder.", show_default="drawn scores")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Measure any Hugging Face causal model: a folder, or a name on the hub.", show_default=False),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Its text, as for compare.", show_default="the run's own; else stdlib")
    ] = None,
    probes: Annotated[int, typer.Option(help="With a model: probes for each length and depth.")] = 8,
    depths: Annotated[str, typer.Option(help="With a model: where the answer stands, 0 to 1.")] = "0,0.25,0.5,0.75,1",
    span: Annotated[int, typer.Option(help="With a model: tokens of the repeated stretch.")] = 8,
    split: Annotated[str, typer.Option(help="With a model: train, validation or test.")] = "test",
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for results.json, tables.md, report.html and each plot as PNG and SVG."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Draw the noise of attention, and say what a second map takes away of it: the floor over length, signal-to-noise
    of softmax and differential attention measured beside the closed form, and cheaper ways to the same end.

    With --run or --model the scores are those of a trained model, layer by layer and head by head: does it have the
    problem, and what does a second map bring, or could it?

    \b
    Examples:
      diffattn noise
      diffattn noise --length 32768 --margin 10 --strength 1.5 --correlation 0.9 --lambda 0.8
      diffattn noise --draws 256 --out runs/noise
      diffattn noise --run runs/v2 --data wikitext-2
      diffattn noise --model HuggingFaceTB/SmolLM2-135M --lengths 128,512,2048 --out runs/smollm
    """
    check_output(json_file)
    drawn = run is None and model is None
    if drawn:
        refuse_given(ctx, _OF_MODELS, "with --run or --model")
    else:
        refuse_given(ctx, _OF_DRAWS, "without --run and --model")
    results = (_drawn if drawn else _trained)(ctx.params, out)
    write_report_json(json_file, results)
    _show(report_console(json_file), results, out)


def _drawn(given: dict[str, Any], out: Path | None) -> dict[str, Any]:
    """The laboratory on drawn scores."""
    with loading():
        from diffattn.experiments.environment import command_line
        from diffattn.experiments.noise import NoiseRequest, run_noise

    numbers: dict[str, Any] = (
        {} if given["lengths"] is None else {"lengths": whole_numbers("lengths", given["lengths"])}
    )
    request = NoiseRequest(**{name: given[name] for name in _DRAWN}, **numbers)
    return _kept(out, lambda: run_noise(request, command=command_line()))


def _trained(given: dict[str, Any], out: Path | None) -> dict[str, Any]:
    """The laboratory on a trained model."""
    with loading():
        from diffattn.experiments.environment import command_line
        from diffattn.experiments.noise.trained import TrainedRequest, run_trained

    lengths = None if given["lengths"] is None else whole_numbers("lengths", given["lengths"])
    depths = numbers_of("depths", given["depths"])
    request = TrainedRequest(**{name: given[name] for name in _TRAINED}, lengths=lengths, depths=depths)
    return _kept(out, lambda: run_trained(request, command=command_line()))


def _kept(out: Path | None, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The results, written into the folder where one is given; it is refused before any work."""
    from diffattn.experiments.noise import reserved, write_results

    with reserved(out) if out else nullcontext() as folder:
        results = work()
        if folder:
            write_results(results, folder, progress=True)
    return results


def _show(console: Console, results: dict[str, Any], out: Path | None) -> None:
    """What was measured in brief, then the answers."""
    from diffattn.cli.tables import print_table
    from diffattn.report.noise_heads import brief_head_tables
    from diffattn.report.noise_tables import brief_tables

    for brief in [*brief_tables(results), *brief_head_tables(results)]:
        console.print(brief.title, style="bold", markup=False)
        print_table(console, brief.head, brief.rows)
        console.print()
    for entry in results["answers"]:
        console.print(
            f"{entry['question']}", *(f"  {sentence}" for sentence in entry["answer"]), sep="\n", markup=False
        )
    if out:
        console.print(f"\nresults: {out / 'results.json'}\nreport:  {out / 'report.html'}", markup=False)
