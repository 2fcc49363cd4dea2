"""Options that several commands have, and how they report. Imports nothing heavy."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffattn.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "BatchSize",
    "Context",
    "Data",
    "Dtype",
    "JsonFile",
    "LearningRate",
    "MatchParameters",
    "PresetName",
    "Tokens",
    "check_output",
    "loading",
    "numbers_of",
    "refuse_given",
    "report_console",
    "resumable",
    "whole_numbers",
    "write_output",
    "write_report_json",
]

Data = Annotated[
    str,
    typer.Option(
        help="The corpus: stdlib (the source of Python's standard library), wikitext-2 (from the Hugging Face hub), "
        "or the path of a text file or of a folder with train, valid and test as .txt or .txt.gz."
    ),
]
PresetName = Annotated[str, typer.Option(help="The size: quick (minutes) or small (about 3M parameters).")]
Tokens = Annotated[int | None, typer.Option(help="Tokens to train on.", show_default="the preset's")]
Context = Annotated[int | None, typer.Option(help="Tokens in a sequence.", show_default="the preset's")]
BatchSize = Annotated[int | None, typer.Option(help="Sequences in a step.", show_default="the preset's")]
LearningRate = Annotated[float | None, typer.Option(help="The peak learning rate.", show_default="the preset's")]
Dtype = Annotated[
    str | None,
    typer.Option(help="float32, or bfloat16 for autocast in training.", show_default="the preset's"),
]
MatchParameters = Annotated[
    bool, typer.Option(help="Fit the feed-forward's width so that the model has the baseline's parameters.")
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Write the results as JSON to this file; - is standard output, with nothing else."),
]


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers between commas, each once; K is 1,024 and M 1,048,576.

    Raises:
        UserError: there is something else.
    """
    sizes = {"": 1, "K": 1 << 10, "M": 1 << 20}
    found = [re.fullmatch("([0-9]{1,12})([KM]?)", part.strip().upper()) for part in text.split(",")]
    if not all(found):
        raise UserError(f"--{option}: expected whole numbers such as 8192 or 32K,128K, got {text[:60]!r}")
    return tuple(dict.fromkeys(int(part[1]) * sizes[part[2]] for part in found if part))


def numbers_of(option: str, text: str) -> tuple[float, ...]:
    """Numbers between commas.

    Raises:
        UserError: there is something else.
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--{option}: expected numbers such as 0,0.5, got {text[:60]!r}") from None


def refuse_given(ctx: typer.Context, names: Iterable[str], when: str) -> None:
    """Refuse options that this way of working does not take, so that none is silently ignored.

    Args:
        ctx: of the command.
        names: of its parameters that were not to be given.
        when: what they go with.

    Raises:
        UserError: one of them was given.
    """
    spelled = {parameter.name: parameter.opts[0] for parameter in ctx.command.params}
    for name in names:
        if getattr(ctx.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT":
            raise UserError(f"{spelled[name]} goes {when} only")


def check_output(path: Path | None, what: str = "JSON") -> None:
    """Refuse, before any work is done, a file for JSON (or `what`) that cannot be written.

    Raises:
        UserError: it is a folder, or its folder is missing.
    """
    if path is not None and str(path) != "-" and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise UserError(f"the {what} file {path} cannot be written: name a file in a folder that exists")


def write_report_json(path: Path | None, value: Any) -> None:
    """Write `value` where `--json` asked for it, if it did.

    Raises:
        UserError: the file cannot be written.
    """
    from diffattn.storage import to_json

    if path is not None:
        write_output(path, to_json(value))


def write_output(path: Path, text: str) -> None:
    """Write `text` to a file, whole or not at all, or to standard output where the path is "-".

    Raises:
        UserError: the file cannot be written.
    """
    from diffattn.storage import write_text

    if str(path) == "-":
        sys.stdout.write(text)
        return
    try:
        write_text(path, text)
    except OSError as error:
        raise UserError(f"the file {path} cannot be written ({error.strerror}): name another") from error


def report_console(path: Path | None) -> Console:
    """Where to print for people: standard output, but standard error where that belongs to the JSON."""
    from rich.console import Console

    return Console(stderr=path is not None and str(path) == "-", highlight=False, soft_wrap=True)


@contextmanager
def loading() -> Iterator[None]:
    """Around the first imports: says what takes so long where they take longer than two seconds."""
    notice = threading.Timer(2.0, lambda: print("loading torch and transformers", file=sys.stderr, flush=True))
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


@contextmanager
def resumable(command: str) -> Iterator[None]:
    """Say on Ctrl-C how to go on, and leave with status 130."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\ndiffattn: stopped; the same command goes on from here: {command}", file=sys.stderr)
        raise typer.Exit(130) from None
