"""`diffattn plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from diffattn.cli import plan_options as options
from diffattn.cli.options import (
    JsonFile,
    check_output,
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


def command(
    ctx: typer.Context,
    config: options.Config,
    variant: options.Variant = "v2",
    context: options.Contexts = "4K,32K,128K",
    batch: options.Batch = "1,16",
    queries: options.Queries = 1,
    dtype: options.Dtype = "bfloat16",
    hardware: options.Hardware = "h100",
    flops: options.Flops = None,
    bandwidth: options.Bandwidth = None,
    margin: options.Margin = None,
    strength: options.Strength = None,
    second_margin: options.SecondMargin = 0.0,
    correlation: options.Correlation = "0,0.5,0.9",
    lam: options.Lam = 0.5,
    training: options.Training = None,
    task: options.Task = None,
    long_data: options.LongData = None,
    long_evaluation: options.LongEvaluation = None,
    train_tokens: options.TrainTokens = None,
    train_context: options.TrainContext = None,
    utilization: options.Utilization = 0.4,
    price_device_hour: options.PriceDeviceHour = None,
    price_kwh: options.PriceKwh = None,
    watts: options.Watts = None,
    pilot: options.Pilot = None,
    difference: options.Difference = 0.01,
    pairs: options.Pairs = 3,
    markdown: options.Markdown = None,
    brief: options.Brief = False,
    prompt: options.Prompt = False,
    skill: options.Skill = False,
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
    check_output(json_file)
    check_output(markdown, "Markdown")
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
