"""The plans that pages quote, made by `diffattn plan`.

python docs/plans.py            says which pages are out of date
python docs/plans.py --write    writes what each command prints under it, between the `printed` markers
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from diffattn.cli.main import main as diffattn

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "outputs").glob("*.md"), *(ROOT / "docs").glob("*.md")])
BEGIN, END = "<!-- printed -->", "<!-- /printed -->"
# A command alone in its block, then the markers.
BLOCK = re.compile(rf"(```sh\n(diffattn plan [^\n]*)\n```\n\n{BEGIN}\n).*?({END})", flags=re.DOTALL)


def printed(command: str) -> str:
    """What the command prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        diffattn(shlex.split(command)[1:])
    if not text.getvalue():
        raise SystemExit(f"{command} printed nothing")
    return text.getvalue()


def with_plans(page: str) -> str:
    """The page with what its commands print now."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{printed(found[2])}\n{found[3]}", page)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What the plans quoted in pages print now.")
    parser.add_argument("--write", action="store_true", help="write it into the pages")
    write = parser.parse_args(arguments).write
    for path in PAGES:
        page = path.read_text()
        new = with_plans(page)
        if new == page:
            continue
        print(f"{path.relative_to(ROOT)}: {'written' if write else 'out of date'}")
        if write:
            path.write_text(new)


if __name__ == "__main__":
    main()
