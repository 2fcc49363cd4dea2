"""`diffattn evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffattn.cli.options import (
    JsonFile,
    check_output,
    loading,
    refuse_given,
    report_console,
    whole_numbers,
    write_report_json,
)
from diffattn.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from diffattn.training import LoadedRun

__all__ = ["command"]

_OF_TEXT = ("split", "context", "max_tokens")
_OF_TASKS = ("limit", "num_fewshot", "seed", "length", "examples")


def command(
    ctx: typer.Context,
    run: Annotated[
        Path,
        typer.Argument(
            help="A run's folder, or one that save_pretrained wrote; with --tasks also a model's name on the hub."
        ),
    ],
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    context: Annotated[
        int | None, typer.Option(help="Tokens that the model sees at once.", show_default="as trained")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Another corpus than the one trained on; with --tasks, a corpus to hide the needles in.",
            show_default="the run's own; with --tasks filler",
        ),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Measure only so many.", show_default="the whole split")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Sequences at once; the result is the same.")] = 8,
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Run these instead: text tasks of diffattn, such as needle, and tasks of EleutherAI's "
            "lm-evaluation-harness, such as hellaswag, whose data comes from the hub.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="With --tasks: documents of each.", show_default="all of them")
    ] = None,
    num_fewshot: Annotated[
        int | None, typer.Option(help="With --tasks: examples before each question.", show_default="the task's own")
    ] = None,
    seed: Annotated[int, typer.Option(help="With --tasks: of all that is drawn.")] = 0,
    length: Annotated[str, typer.Option(help="With --tasks: tokens of diffattn's prompts, such as 1K,4K.")] = "1K",
    examples: Annotated[int, typer.Option(help="With --tasks: diffattn's prompts for each length.")] = 100,
    json_file: JsonFile = None,
) -> None:
    """Measure how well a trained model predicts a text: perplexity a token and a word, and bits a byte.

    With --tasks it is asked questions instead, by lm-evaluation-harness (pip install 'diffattn[eval]').

    \b
    Examples:
      diffattn evaluate runs/v2
      diffattn evaluate runs/v2 --split validation --context 128 --json -
      diffattn evaluate runs/v2 --data my-text.txt
      diffattn evaluate runs/v2 --tasks needle,needles_6_2 --length 256,512 --examples 50
      diffattn evaluate runs/v2 --tasks needle,niah_single_2 --data wikitext-2
      diffattn evaluate HuggingFaceTB/SmolLM2-135M --tasks needle,hellaswag --limit 100
    """
    check_output(json_file)
    refuse_given(ctx, _OF_TASKS if tasks is None else _OF_TEXT, f"{'with' if tasks is None else 'without'} --tasks")
    if tasks is not None:
        result = {"run": str(run), **_asked(run, ctx.params)}
        write_report_json(json_file, result)
        _show(report_console(json_file), result)
        return
    with loading():
        from diffattn.training import load_run

    loaded = load_run(run)
    wanted = _config(loaded, split, context, batch_size, max_tokens)
    result = {"run": str(run), **_measure(loaded, data, wanted)}
    write_report_json(json_file, result)
    report_console(json_file).print(_text(result), markup=False)


def _config(run: LoadedRun, split: str, context: int | None, batch_size: int, max_tokens: int | None) -> Any:
    from diffattn.evaluation import PerplexityConfig

    settings = (run.claim or {}).get("settings") or {}
    seen = settings.get("context") or min(256, run.model.config.max_position_embeddings)
    chosen = seen if context is None else context
    try:
        return PerplexityConfig(split=split, context=chosen, batch_size=batch_size, max_tokens=max_tokens)
    except ValueError as error:
        raise UserError(str(error)) from error


def _measure(run: LoadedRun, source: str | None, config: Any) -> dict[str, Any]:
    import tempfile

    from diffattn.evaluation import perplexity
    from diffattn.experiments.single import corpus_of

    with tempfile.TemporaryDirectory() as scratch:
        data = corpus_of(run, source, Path(scratch))
        result = perplexity.measure(run.model, data, config, progress=True).to_dict()
        return {"corpus": {"name": data.corpus["name"], "sha256": data.corpus["sha256"]}, **result}


def _text(result: dict[str, Any]) -> str:
    return (
        f"{result['corpus']['name']}, {result['split']}: {result['tokens']:,} tokens, context {result['context']}\n"
        f"perplexity a token  {result['perplexity_token']:,.2f}\n"
        f"perplexity a word   {result['perplexity_word']:,.2f}\n"
        f"bits a byte         {result['bits_per_byte']:.4f}"
    )


def _asked(run: Path, given: dict[str, Any]) -> dict[str, Any]:
    """What the harness found."""
    names = tuple(name.strip() for name in given["tasks"].split(",") if name.strip())
    lengths = whole_numbers("length", given["length"])
    with loading():
        from diffattn.evaluation.harness import HarnessConfig, check_installed, measure
        from diffattn.experiments.single import open_any
    check_installed()
    numbers = {name: given[name] for name in ("limit", "num_fewshot", "batch_size", "seed", "examples")}
    try:
        config = HarnessConfig(tasks=names, lengths=lengths, haystack=_haystack(given["data"]), **numbers)
    except ValueError as error:
        raise UserError(str(error).removeprefix("HarnessConfig: ")) from error
    loaded = open_any(str(run))
    return measure(loaded.model, loaded.tokenizer, config, progress=True)


def _haystack(source: str | None) -> str | None:
    """The test split of a corpus, in one piece."""
    from diffattn.experiments.single import read_corpus

    return None if source is None else "\n".join(read_corpus(source, progress=True).splits["test"])


def _show(console: Console, result: dict[str, Any]) -> None:
    """Every value with its standard error, then what was cut."""
    from diffattn.cli.tables import print_table

    rows = [
        [task, _documents(result, task), metric if kind == "none" else f"{metric} ({kind})", f"{value:,.4f}", error]
        for task, scores in result["results"].items()
        for key, value in scores.items()
        for metric, _, kind in [key.partition(",")]
        if f"{metric}_stderr,{kind}" in scores
        for error in [_error(scores[f"{metric}_stderr,{kind}"])]
    ]
    print_table(console, ["Task", "Documents", "Measure", "Value", "Standard error"], rows)
    for task, cut in result["cut"].items():
        console.print(f"{task}: {cut} requests were longer than the model's context and lost their start", markup=False)
    for note in result["notes"]:
        console.print(note, markup=False)


def _documents(result: dict[str, Any], task: str) -> str:
    """How many were asked of a task; of a group, in its tasks' rows."""
    return str(result["n-samples"].get(task, {}).get("effective", ""))


def _error(value: float | str | None) -> str:
    """A standard error of 0 tells that all scores are alike, and nothing of how near the value is."""
    return f"{value:,.4f}" if isinstance(value, float) and value else ("all alike" if value == 0 else "not known")
