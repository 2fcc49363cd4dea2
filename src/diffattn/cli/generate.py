"""`diffattn generate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffattn.cli.options import loading
from diffattn.errors import UserError

if TYPE_CHECKING:
    from diffattn.training import LoadedRun

__all__ = ["command"]

_DEFAULT_TOKENS = 100


def command(
    run: Annotated[Path, typer.Argument(help="A run's folder, or one that save_pretrained wrote.")],
    prompt: Annotated[str, typer.Option(help="The text to go on with.")],
    max_new_tokens: Annotated[
        int | None,
        typer.Option(help="Tokens to add at most.", show_default="100, or as many as the model has room for"),
    ] = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token; more is more varied.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the random choice, where the temperature is above 0.")] = 0,
) -> None:
    """Print the prompt and what the model goes on with, as it comes.

    \b
    Examples:
      diffattn generate runs/v2 --prompt "def main("
      diffattn generate runs/v2 --prompt "import os" --temperature 0.8 --seed 1 --max-new-tokens 50
    """
    if not 0 <= temperature < float("inf"):
        raise UserError(f"the temperature must be 0 or more, not {temperature}")
    with loading():
        from diffattn.training import load_run

    loaded = load_run(run)
    inputs = loaded.tokenizer(prompt, return_tensors="pt").to(loaded.model.device)
    length = _room(loaded, inputs["input_ids"].shape[1], max_new_tokens)
    _generate(loaded, inputs, length, temperature, seed)


def _room(run: LoadedRun, used: int, asked: int | None) -> int:
    """How many tokens to add; a UserError where the model has no room for as many as were asked for."""
    longest = run.model.config.max_position_embeddings
    if used >= longest:
        raise UserError(f"the prompt has {used} tokens, the model's context is {longest}: give a shorter prompt")
    wanted = min(_DEFAULT_TOKENS, longest - used) if asked is None else asked
    if not 1 <= wanted <= longest - used:
        raise UserError(
            f"--max-new-tokens must be from 1 to {longest - used} after a prompt of {used} tokens, not {wanted}: "
            f"the model's context is {longest}"
        )
    return wanted


def _generate(run: LoadedRun, inputs: Any, length: int, temperature: float, seed: int) -> None:
    import transformers
    from transformers import GenerationConfig, TextStreamer

    from diffattn.training.huggingface import quiet

    transformers.set_seed(seed)
    how = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature > 0 else {"do_sample": False}
    tokenizer = run.tokenizer
    config = GenerationConfig(
        max_new_tokens=length,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **how,
    )
    streamer = TextStreamer(tokenizer, skip_special_tokens=True)
    with quiet():
        run.model.generate(**inputs, generation_config=config, streamer=streamer)
