"""The options of `diffattn plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_NOT_SAID = "not said"

Config = Annotated[str, typer.Argument(help="A config.json, a folder with one, or a preset; `presets` names them.")]
Variant = Annotated[str, typer.Option(help="Whose decoding and fields to show: v2, v1 or gated.")]
Contexts = Annotated[str, typer.Option(help="Target contexts, tokens, such as 32K or 8192,131072.")]
Batch = Annotated[str, typer.Option(help="Sequences decoded at once, such as 1,16.")]
Queries = Annotated[int, typer.Option(help="Tokens a decode step, more than one with speculation.")]
Dtype = Annotated[str, typer.Option(help="Of weights and cache: bfloat16, float16, float32, float8.")]
Hardware = Annotated[str, typer.Option(help="h100, h200, a100, mi300x, or cpu: this one, measured.")]
Flops = Annotated[float | None, typer.Option(help="FLOPs a second, with --bandwidth for another machine.")]
Bandwidth = Annotated[float | None, typer.Option(help="Bytes a second of its memory.")]
Margin = Annotated[
    float | None,
    typer.Option(help="The match's score above the others', as measured.", show_default="8, assumed"),
]
Strength = Annotated[
    float | None, typer.Option(help="Spread of the others' scores, as measured.", show_default="1, assumed")
]
SecondMargin = Annotated[float, typer.Option(help="Noise model: the match's margin in the second map.")]
Correlation = Annotated[str, typer.Option(help="Noise model: of the two maps' noise.")]
Lam = Annotated[float, typer.Option("--lambda", help="Noise model: a fixed lambda beside the best.")]
Training = Annotated[
    str | None,
    typer.Option(help="How it will be trained: pretraining, mid-training, lora, none.", show_default=_NOT_SAID),
]
Task = Annotated[str | None, typer.Option(help="Mostly for: retrieval, general or code.", show_default=_NOT_SAID)]
LongData = Annotated[
    bool | None, typer.Option(help="There is training text as long as the context.", show_default=_NOT_SAID)
]
LongEvaluation = Annotated[
    bool | None, typer.Option(help="There is an evaluation at that length.", show_default=_NOT_SAID)
]
TrainTokens = Annotated[
    float | None, typer.Option(help="Tokens of the training, such as 1e12.", show_default="20 a parameter")
]
TrainContext = Annotated[
    int | None,
    typer.Option(help="Tokens of a training sequence.", show_default="4096; else the target"),
]
Utilization = Annotated[float, typer.Option(help="Share of the machine's rate that training reaches.")]
PriceDeviceHour = Annotated[float | None, typer.Option(help="Money for an hour of one device.")]
PriceKwh = Annotated[float | None, typer.Option(help="Money for a kilowatt hour.")]
Watts = Annotated[float | None, typer.Option(help="Power of one device.", show_default="the machine's")]
Pilot = Annotated[Path | None, typer.Option(help="results.json of a comparison, for its spread over seeds.")]
Difference = Annotated[float, typer.Option(help="Loss difference to be shown, nats a token.")]
Pairs = Annotated[int, typer.Option(help="Pairs of runs that can be paid for.")]
Markdown = Annotated[Path | None, typer.Option(help="Write the plan as Markdown; - is standard output.")]
Brief = Annotated[bool, typer.Option("--brief", help="Print a dozen lines instead of the whole plan.")]
Prompt = Annotated[bool, typer.Option("--prompt", help="Print the evaluator's prompt with these numbers.")]
Skill = Annotated[bool, typer.Option("--skill", help="Print the integrator's skill with these numbers.")]
