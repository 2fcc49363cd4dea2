"""`diffattn train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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

__all__ = ["command"]


def command(
    out: Annotated[Path, typer.Option(help="A folder for this run.")],
    variant: Annotated[str, typer.Option(help="The attention: softmax, gated, v1 or v2.")] = "v2",
    preset: PresetName = "quick",
    data: Data = "stdlib",
    seed: Annotated[int, typer.Option(help="Of initial weights and token order.")] = 0,
    match_parameters: MatchParameters = True,
    tokens: Tokens = None,
    context: Context = None,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    dtype: Dtype = None,
    json_file: JsonFile = None,
) -> None:
    """Train one model and save it, with its tokenizer, in the folder's `model`. Stopped at any time, the same command
    goes on from the last checkpoint.

    \b
    Examples:
      diffattn train --out runs/v2
      diffattn train --variant softmax --preset small --data wikitext-2 --out runs/softmax
    """
    check_output(json_file)
    with loading():
        from diffattn.experiments.environment import command_line
        from diffattn.experiments.presets import find_preset, override
        from diffattn.experiments.single import train_one

    changes = {"tokens": tokens, "context": context, "batch_size": batch_size}
    size = override(find_preset(preset), **changes, learning_rate=learning_rate, dtype=dtype, seed=seed)
    with resumable(command_line()):
        result = train_one(size, variant, data, out, match_parameters=match_parameters)
    write_report_json(json_file, result)
    loss = result["curves"]["loss"][-1]
    last = "not finite: try a smaller --learning-rate" if loss is None else f"{loss:.3f}"
    report_console(json_file).print(
        f"trained on {result['tokens']:,} tokens in {result['seconds']:.0f} s "
        f"({result['tokens_per_second']:,.0f} a second), last training loss {last}\nmodel: {out / 'model'}",
        markup=False,
    )
