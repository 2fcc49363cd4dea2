"""The lesson as a script, from the source tree and with nothing installed: `python src/diffattn/lesson/main.py`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

if sys.version_info < (3, 10):  # noqa: UP036  (it may be run by any Python that is at hand)
    print("lesson: it needs Python 3.10 or later", file=sys.stderr)
    sys.exit(2)
if __name__ == "__main__":  # run by its path: the package is then not to be found
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from diffattn.errors import UserError
from diffattn.lesson.pages.course import FIRST, LAST, teach

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the lesson on `arguments` (those of the process where None); the exit status is 0, or 2 for a mistake."""
    chosen = _parser().parse_args(arguments)
    try:
        teach(chosen.number, html=chosen.html, exercise=chosen.exercise, answer=chosen.answer)
        sys.stdout.flush()
    except UserError as error:
        print(f"lesson: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("lesson: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read has gone, and Python must not try again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, and the status of a mistake."""
        self.exit(2, f"lesson: {message}; see --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="lesson", description="A lesson on differential attention: measured beside derived.")
    parser.add_argument("number", nargs="?", type=int, metavar="N", help=f"one part, {FIRST} to {LAST}; without it all")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page with curves instead")
    parser.add_argument("--exercise", action="store_true", help="show the exercises")
    parser.add_argument("--answer", action="store_true", help="show the exercises with their answers")
    return parser


if __name__ == "__main__":
    sys.exit(main())
