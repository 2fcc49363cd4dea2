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
    """Look into a trained model: where its attention goes when it is asked for a needle, its largest logits and hidden
    states, the size of its contexts, gradients by module, what rounding and noise cost it, and of differential models
    lambda, dead pairs, and what is lost when the subtraction is switched off, as a whole and head by head.

    \b
    Measures: attention, outliers, context_rms, gradient_norms, bfloat16_error, quantised, lambda_values, switch_off,
    dead_pairs. Memory grows with the length of a sequence, not with its square.

    \b
    Examples:
      diffattn inspect runs/v2
      diffattn inspect runs/v2 --measures switch_off,dead_pairs --json -
      diffattn inspect HuggingFaceTB/SmolLM2-135M --measures attention,outliers --length 2048
    """
    check_output(json_file)
    with loading():
        from diffattn.experiments.environment import command_line
        from diffattn.experiments.headlines import headlines

    result = {"run": run, "command": command_line(), **_inspected(run, measures, length, sequences, data, split)}
    write_report_json(json_file, result)
    from diffattn.cli.tables import print_table

    console = report_console(json_file)
    console.print(f"{result['sequences']} sequences of {result['length']:,} tokens of {result['corpus']}", markup=False)
    print_table(console, ["Measure", "What", "Value"], headlines(result["measured"]))


def _inspected(
    run: str, measures: str, length: int | None, sequences: int, source: str | None, split: str
) -> dict[str, Any]:
    from diffattn.data.progress import delayed_progress
    from diffattn.experiments.inspection import MEASURES, attention_on_needles, inspect_model
    from diffattn.experiments.single import load_any

    names = ["attention", *MEASURES] if measures == "all" else [name.strip() for name in measures.split(",")]
    unknown = [name for name in names if name not in ("attention", *MEASURES)]
    if unknown or sequences < 1:
        what = f"there is no measure {unknown[0]!r}" if unknown else f"--sequences must be at least 1, got {sequences}"
        raise UserError(f"{what}: use all, or some of attention, {', '.join(MEASURES)}")
    with tempfile.TemporaryDirectory() as scratch:
        model, tokenizer, text = load_any(run, source, Path(scratch))
        longest = getattr(model.config, "max_position_embeddings", None) or _LONG
        context = length or min(longest, _LONG)
        prompt = max(context, min(longest, _PROMPT))
        batch = _batch(text.tokens(split), context, sequences)
        measured: dict[str, Any] = {}
        with delayed_progress("Measuring", len(names)) as advance:
            for name in names:
                if name == "attention":
                    measured[name] = attention_on_needles(model, tokenizer, prompt, sequences)
                else:
                    measured |= inspect_model(model, batch, [name])
                advance(1)
        return {
            "length": context,
            "sequences": len(batch),
            "corpus": text.corpus["name"],
            "split": split,
            "measured": measured,
        }


def _batch(tokens: Any, length: int, count: int) -> Any:
    """Sequences from the start of the split, int64 `[at most count, length]`."""
    import numpy as np

    found = min(count, len(tokens) // length) if length > 0 else 0
    if not found:
        raise UserError(f"the split has {len(tokens):,} tokens, which do not fill one sequence of {length:,}")
    return np.asarray(tokens[: found * length]).astype(np.int64).reshape(found, length)
