"""`diffattn evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffattn.cli.options import JsonFile, check_output, loading, report_console, write_report_json
from diffattn.errors import UserError

if TYPE_CHECKING:
    from diffattn.training import LoadedRun

__all__ = ["command"]


def command(
    run: Annotated[Path, typer.Argument(help="A run's folder, or one that save_pretrained wrote.")],
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    context: Annotated[
        int | None, typer.Option(help="Tokens that the model sees at once.", show_default="as trained")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Another corpus than the one trained on.", show_default="the run's own")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Measure only so many.", show_default="the whole split")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Sequences at once; the result is the same.")] = 8,
    json_file: JsonFile = None,
) -> None:
    """Measure how well a trained model predicts a text: perplexity a token and a word, and bits a byte.

    \b
    Examples:
      diffattn evaluate runs/v2
      diffattn evaluate runs/v2 --split validation --context 128 --json -
      diffattn evaluate runs/v2 --data my-text.txt
    """
    check_output(json_file)
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
