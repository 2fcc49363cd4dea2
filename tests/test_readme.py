"""What the README shows is run: its snippets, and every command line down to its options, on the other pages too."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "outputs").glob("*.md")]


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def commands(page: str = README) -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh", page) for line in block.splitlines()]
    return [line for line in lines if line]


ELSEWHERE = sorted({command for page in PAGES for command in commands(page.read_text())})


@pytest.mark.parametrize("snippet", blocks("python"))
def test_snippets_run(snippet):
    names: dict = {}
    exec(compile(snippet, "README.md", "exec"), names)
    if "out" in names:
        assert names["out"].shape == (1, 8, 128, 64)
    else:
        assert names["model"].config.num_attention_heads == 16


@pytest.mark.parametrize("command", [c for c in [*commands(), *ELSEWHERE] if c.startswith("diffattn")])
def test_commands_parse(command):
    """Every option exists and takes its value; running them is tested with the command line."""
    from diffattn.cli.main import COMMANDS, _load

    _, name, *arguments = shlex.split(command)
    assert name in COMMANDS
    context = _load(name).make_context(name, arguments)
    assert context.params


def test_a_wrong_option_would_not_parse():
    from diffattn.cli.main import _load

    with pytest.raises(Exception, match="No such option"):
        _load("compare").make_context("compare", ["--seed", "3"])


def test_the_two_commands_come_first_and_exist():
    made = [c.split()[1] for c in commands() if c.startswith("make")]
    assert made == ["compare", "test"]
    assert README.index("make compare") < README.index("\n", README.index("make test"))
    assert README[: README.index("make test")].count("\n") < 30
    for target in made:
        shown = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 4
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_the_commands_named_are_all_there():
    from diffattn.cli.main import COMMANDS

    assert {c.split()[1] for c in commands() if c.startswith("diffattn")} == set(COMMANDS)
