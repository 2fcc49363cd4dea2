"""`diffattn plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffattn.cli.options import (
    JsonFile,
    check_json,
    numbers_of,
    report_console,
    whole_numbers,
    write_output,
    write_report_json,
)
from diffattn.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["command"]

_NOT_SAID = "not said"
#: Options that go into the request as they are.
_PLAIN = (
    "variant",
    "queries",
    "dtype",
    "training",
    "task",
    "long_data",
    "long_evaluation",
    "train_tokens",
    "train_context",
    "difference",
    "pairs",
)
Lengths = Annotated[str, typer.Option(help="Target contexts, tokens, such as 32K or 8192,131072.")]


def command(
    ctx: typer.Context,
    config: Annotated[str, typer.Argument(help="A config.json, a folder with one, or a preset; `presets` names them.")],
    variant: Annotated[str, typer.Option(help="Whose decoding and fields to show: v2, v1 or gated.")] = "v2",
    context: Lengths = "4K,32K,128K",
    batch: Annotated[str, typer.Option(help="Sequences decoded at once, such as 1,16.")] = "1,16",
    queries: Annotated[int, typer.Option(help="Tokens a decode step, more than one with speculation.")] = 1,
    dtype: Annotated[str, typer.Option(help="Of weights and cache: bfloat16, float16, float32, float8.")] = "bfloat16",
    hardware: Annotated[str, typer.Option(help="h100, h200, a100, mi300x, or cpu: this one, measured.")] = "h100",
    flops: Annotated[float | None, typer.Option(help="FLOPs a second, with --bandwidth for another machine.")] = None,
    bandwidth: Annotated[float | None, typer.Option(help="Bytes a second of its memory.")] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="The match's score above the others', as measured.", show_default="8, assumed"),
    ] = None,
    strength: Annotated[
        float | None, typer.Option(help="Spread of the others' scores, as measured.", show_default="1, assumed")
    ] = None,
    second_margin: Annotated[float, typer.Option(help="Noise model: the match's margin in the second map.")] = 0.0,
    correlation: Annotated[str, typer.Option(help="Noise model: of the two maps' noise.")] = "0,0.5,0.9",
    lam: Annotated[float, typer.Option("--lambda", help="Noise model: a fixed lambda beside the best.")] = 0.5,
    training: Annotated[
        str | None,
        typer.Option(help="How it will be trained: pretraining, mid-training, lora, none.", show_default=_NOT_SAID),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Mostly for: retrieval, general or code.", show_default=_NOT_SAID)
    ] = None,
    long_data: Annotated[
        bool | None, typer.Option(help="There is training text as long as the context.", show_default=_NOT_SAID)
    ] = None,
    long_evaluation: Annotated[
        bool | None, typer.Option(help="There is an evaluation at that length.", show_default=_NOT_SAID)
    ] = None,
    train_tokens: Annotated[
        float | None, typer.Option(help="Tokens of the training, such as 1e12.", show_default="20 a parameter")
    ] = None,
    train_context: Annotated[
        int | None,
        typer.Option(help="Tokens of a training sequence.", show_default="4096; else the target"),
    ] = None,
    utilization: Annotated[float, typer.Option(help="Share of the machine's rate that training reaches.")] = 0.4,
    price_device_hour: Annotated[float | None, typer.Option(help="Money for an hour of one device.")] = None,
    price_kwh: Annotated[float | None, typer.Option(help="Money for a kilowatt hour.")] = None,
    watts: Annotated[float | None, typer.Option(help="Power of one device.", show_default="the machine's")] = None,
    pilot: Annotated[Path | None, typer.Option(help="results.json of a comparison, for its spread over seeds.")] = None,
    difference: Annotated[float, typer.Option(help="Loss difference to be shown, nats a token.")] = 0.01,
    pairs: Annotated[int, typer.Option(help="Pairs of runs that can be paid for.")] = 3,
    markdown: Annotated[Path | None, typer.Option(help="Write the plan as Markdown; - is standard output.")] = None,
    brief: Annotated[bool, typer.Option("--brief", help="Print a dozen lines instead of the whole plan.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print the evaluator's prompt with these numbers.")] = False,
    skill: Annotated[bool, typer.Option("--skill", help="Print the integrator's skill with these numbers.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Say what differential attention would cost and bring for a model: parameters, cache, decoding, noise, training,
    and whether to use it. Nothing is downloaded and no model is built.

    \b
    Examples:
      diffattn plan llama-3.1-8b
      diffattn plan runs/v2/model/config.json --context 128K --batch 1,32 --hardware h200
      diffattn plan qwen3-4b --training pretraining --long-data --long-evaluation --train-tokens 1e12 --markdown -
      diffattn plan deepseek-v3 --prompt
    """
    check_json(json_file)
    check_json(markdown, "Markdown")
    if json_file is not None and str(json_file) == str(markdown):
        raise UserError(f"--json and --markdown cannot both be written to {json_file}: name two files")
    if str(markdown) == "-" and (brief or prompt or skill):
        raise UserError("--markdown - has the standard output for itself: leave out --brief, --prompt and --skill")
    if config == "presets":
        typer.echo(_presets())
        return
    _refuse_half(margin, strength)
    found = _plan(ctx.params)
    write_report_json(json_file, found)
    if markdown is not None:
        write_output(markdown, _page(found))
    if brief or prompt or skill:
        typer.echo(_texts(found, brief, prompt, skill), nl=False, err=str(json_file) == "-")
    elif str(markdown) != "-":
        _show(report_console(json_file), found)


def _presets() -> str:
    from diffattn.planning.presets import PRESETS

    return "\n".join(PRESETS)


def _refuse_half(margin: float | None, strength: float | None) -> None:
    if (margin is None) != (strength is None):
        raise UserError("--margin and --strength are measured together: give both, or none to have them assumed")


def _plan(given: dict[str, Any]) -> dict[str, Any]:
    """The plan for the options as they were typed."""
    from diffattn.cli.machines import choose_hardware
    from diffattn.planning.config_file import read_config, read_results
    from diffattn.planning.plan import plan
    from diffattn.planning.request import PlanRequest

    config, name = read_config(given["config"])
    pilot = None if given["pilot"] is None else read_results(given["pilot"])
    try:
        request = PlanRequest(
            config=config,
            name=name,
            pilot=pilot,
            contexts=whole_numbers("context", given["context"]),
            batches=whole_numbers("batch", given["batch"]),
            hardware=choose_hardware(*(given[key] for key in ("hardware", "dtype", "flops", "bandwidth"))),
            noise=_noise(given),
            prices=_prices(given),
            **{key: given[key] for key in _PLAIN},
        )
        return plan(request)
    except ValueError as error:
        raise UserError(f"{given['config']}: {error}") from error


def _noise(given: dict[str, Any]) -> Any:
    from diffattn.planning.floor import NoiseAssumptions

    measured = {key: given[key] for key in ("margin", "strength") if given[key] is not None}
    numbers = {key: given[key] for key in ("second_margin", "lam")}
    correlations = numbers_of("correlation", given["correlation"])
    return NoiseAssumptions(**measured, **numbers, correlations=correlations, measured=len(measured) == 2)


def _prices(given: dict[str, Any]) -> Any:
    from diffattn.planning.cost import Prices

    return Prices(
        utilization=given["utilization"],
        device_hour=given["price_device_hour"],
        kilowatt_hour=given["price_kwh"],
        watts=given["watts"],
    )


def _page(found: dict[str, Any]) -> str:
    from diffattn.planning.sections import to_markdown

    return to_markdown(found)


def _texts(found: dict[str, Any], brief: bool, prompt: bool, skill: bool) -> str:
    from diffattn.planning import artefacts

    texts = [artefacts.brief(found)] if brief else []
    texts += [artefacts.filled(name, found) for name, wanted in (("prompt", prompt), ("skill", skill)) if wanted]
    return "\n".join(texts)


def _show(console: Console, found: dict[str, Any]) -> None:
    """The sections, each with its table."""
    from diffattn.cli.tables import print_table
    from diffattn.planning.sections import sections

    console.print(f"Differential attention for {found['model']}", style="bold", markup=False)
    for section in sections(found):
        console.print(f"\n{section.title}", style="bold", markup=False)
        for text in section.before:
            console.print(text, markup=False)
        if section.table:
            print_table(console, section.table.columns, section.table.rows)
        for text in section.after:
            console.print(text, markup=False)
