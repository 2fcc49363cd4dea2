"""The `diffattn` command: finds the subcommand, and turns whatever goes wrong into one line and an exit status.

Exit status: 0 done, 1 our fault (with a traceback), 2 something the user must mend, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from diffattn.errors import UserError

__all__ = ["COMMANDS", "main"]

#: The commands, with what the group's help says of each; the module `diffattn.cli.<name>` has its `command`.
COMMANDS = {
    "compare": "Train models that differ only in their attention, and say which is better.",
    "experiment": "Run a study with controls, seeds and intervals.",
    "reproduce": "Run a results file again, and report the differences.",
    "train": "Train one model.",
    "evaluate": "Measure a trained model's perplexity, or ask it tasks.",
    "inspect": "Look into a trained model, head by head.",
    "generate": "Let a trained model go on with a text.",
    "plan": "Say what differential attention would cost and bring for a model, and whether to use it.",
    "lesson": "Teach differential attention: what is measured beside what is derived.",
    "noise": "Draw the noise of attention, and say what a second map takes away of it.",
    "doctor": "Say what is installed, and which backends serve here and why not.",
}

# Typer keeps its copy of click to itself in newer releases; what it exports leads to the class all the same.
_UsageError: Any = typer.BadParameter.__mro__[1]


class _Deferred(typer.core.TyperCommand):
    """A command that is known by name alone until it is called."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        return _load(str(self.name)).make_context(info_name, args, parent=parent, **extra)


class _Group(typer.core.TyperGroup):
    """The group of `COMMANDS`; listing them for `--help` imports none."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return _Deferred(name=cmd_name, callback=None, help=COMMANDS[cmd_name])


_app = typer.Typer(
    cls=_Group,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import diffattn

        typer.echo(f"diffattn {diffattn.__version__}")
        raise typer.Exit


@_app.callback()
def _diffattn(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Differential attention for PyTorch: train it, measure it, compare it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line on `arguments` (those of the process where None) and leave with its exit status."""
    sys.exit(_run(sys.argv[1:] if arguments is None else list(arguments)))


def _run(arguments: list[str]) -> int:
    # Torch's threads wait for one another by spinning; on cores that anything else uses, that costs up to 30 times
    # the step. This bounds the wait, at no cost on an idle machine; it is read when torch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    if sys.stdout is None:  # closed by whoever called
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        status = typer.main.get_command(_app).main(arguments or ["--help"], prog_name="diffattn", standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        return _complain(str(error), 2)
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "diffattn"
        message = " ".join(error.format_message().split())
        return _complain(f"{message.rstrip('.')}; see {path} --help", 2) if message else 2
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "diffattn":
            raise
        return _complain(f"{error.name} is not installed: pip install 'diffattn[experiments]'", 2)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("stopped", 130)
    except BrokenPipeError:
        # Whoever read the output has gone; nothing more can be told, and Python must not try when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO) or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _complain(f"the standard output cannot be written ({error.strerror})", 2)
    return status if isinstance(status, int) else 0


def _complain(message: str, status: int) -> int:
    print(f"diffattn: {' '.join(message.split())}", file=sys.stderr)
    return status


def _load(name: str) -> Any:
    command = import_module(f"diffattn.cli.{name}").command
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name=name, context_settings={"help_option_names": ["-h", "--help"]})(command)
    return typer.main.get_command(app)
