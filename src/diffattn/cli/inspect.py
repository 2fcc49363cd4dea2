"""`diffattn inspect`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from diffattn.cli.options import JsonFile, check_output, loading, report_console, write_report_json
from diffattn.errors import UserError

__all__ = ["command"]

_LONG, _PROMPT = 512, 256  # tokens of a sequence by default, and of a prompt with a needle at least
_SHORTEST = 3  # tokens, so that two maps can differ in more than one number


def command(
    run: Annotated[str, typer.Argument(help="A run's folder, or any Hugging Face causal model: a folder or hub name.")],
    measures: Annotated[
        str, typer.Option(help="Which, with commas between; all: every one that the model allows.")
    ] = "all",
    length: Annotated[
        int | None, typer.Option(help="Tokens in a sequence.", show_default="the model's, at most 512")
    ] = None,
    sequences: Annotated[int, typer.Option(help="How many sequences of text.")] = 8,
    data: Annotated[
        str | None, typer.Option(help="Their text, as for compare.", show_default="the run's own; else stdlib")
    ] = None,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    json_file: JsonFile = None,
) -> None:
    """Look into a trained model: whether it finds a needle, where its attention goes then, its largest logits and
    hidden states, the size of its contexts, gradients by module, what rounding and noise cost it, and of differential
    models lambda, dead pairs, and what is lost when the subtraction is switched off, as a whole and head by head.

    \b
    Measures: attention, needles (found, by depth and length), outliers, context_rms, gradient_norms, bfloat16_error,
    quantised, lambda_values, switch_off, dead_pairs. Memory grows with the length of a sequence, not with its square.

    \b
    Examples:
      diffattn inspect runs/v2
      diffattn inspect runs/v2 --measures switch_off,dead_pairs --json -
      diffattn inspect HuggingFaceTB/SmolLM2-135M --measures attention,outliers --length 2048
    """
    check_output(json_file)
    if sequences < 1:
        raise UserError(f"--sequences must be at least 1, got {sequences}")
    if length is not None and length < _SHORTEST:
        raise UserError(f"--length must be at least {_SHORTEST}, got {length}")
    with loading():
        from diffattn.experiments.environment import command_line
        from diffattn.experiments.headlines import headlines

    result = {"run": run, "command": command_line(), **_inspected(run, measures, length, sequences, data, split)}
    write_report_json(json_file, result)
    from diffattn.cli.tables import print_table

    console = report_console(json_file)
    console.print(f"{result['sequences']} sequences of {result['length']:,} tokens of {result['corpus']}", markup=False)
    print_table(console, ["Measure", "What", "Value"], headlines(result["measured"]))
    for name, reason in result["left_out"].items():
        console.print(f"{name} left out: {reason}", markup=False)


def _inspected(
    run: str, measures: str, length: int | None, sequences: int, source: str | None, split: str
) -> dict[str, Any]:
    from diffattn.evaluation.finite_weights import check_weights
    from diffattn.experiments.inspection import first_sequences
    from diffattn.experiments.single import load_any
    from diffattn.tasks import check_fits

    names = _names(measures)
    with tempfile.TemporaryDirectory() as scratch:
        model, tokenizer, text = load_any(run, source, Path(scratch))
        check_weights(model)
        longest = getattr(model.config, "max_position_embeddings", None)
        context = length or min(longest or _LONG, _LONG)
        check_fits(context, longest)
        prompt = max(context, min(longest or _LONG, _PROMPT))
        batch = first_sequences(text.tokens(split), context, sequences)
        measured, left_out = _measured(model, tokenizer, names, batch, prompt, sequences, refuse=measures != "all")
        sizes = {"length": context, "sequences": len(batch), "corpus": text.corpus["name"], "split": split}
        return {**sizes, "measured": measured, "left_out": left_out}


def _names(measures: str) -> list[str]:
    from diffattn.experiments.inspection import MEASURES, ON_NEEDLES

    known = [*ON_NEEDLES, *MEASURES]
    names = known if measures == "all" else [name.strip() for name in measures.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(f"there is no measure {unknown[0]!r}: use all, or some of {', '.join(known)}")
    return names


def _measured(
    model: Any, tokenizer: Any, names: list[str], batch: Any, prompt: int, prompts: int, *, refuse: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Each measure's result, and why others have none; with `refuse`, the first that cannot be taken is an error."""
    from diffattn.data.progress import delayed_progress
    from diffattn.experiments.inspection import ON_NEEDLES, inspect_model

    measured: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    with delayed_progress("Measuring", len(names)) as advance:
        for name in names:
            try:
                if name in ON_NEEDLES:
                    measured[name] = ON_NEEDLES[name](model, tokenizer, prompt, prompts)
                else:
                    measured |= inspect_model(model, batch, [name])
            except UserError as error:
                if refuse:
                    raise
                left_out[name] = str(error)
            advance(1)
    unlike = "the model has no differential attention"
    return measured, {name: left_out.get(name, unlike) for name in names if name not in measured}
