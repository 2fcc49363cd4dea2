"""The command line as a whole: lazy, one line for every mistake, the right exit status."""

from __future__ import annotations

import subprocess
import sys

import pytest

from diffattn.cli import main as module
from diffattn.cli.main import COMMANDS, main

HEAVY = ("torch", "transformers", "tokenizers", "datasets", "matplotlib", "scipy", "numpy")
PROBE = """
import sys
from diffattn.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as leave:
    status = leave.code
print("modules", *sorted(name for name in sys.modules if "." not in name or name.startswith("diffattn.")))
sys.exit(status)
"""


def call(*arguments):
    with pytest.raises(SystemExit) as leave:
        main(list(arguments))
    return leave.value.code


def loaded_by(*arguments):
    process = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return set(process.stdout.rpartition("modules ")[2].split())


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"]])
def test_help_loads_nothing_heavy_and_no_command(arguments):
    modules = loaded_by(*arguments)
    assert not modules & set(HEAVY)
    assert not [name for name in modules if name.startswith("diffattn.cli.") and name != "diffattn.cli.main"]


def test_help_of_a_command_loads_only_that_command():
    modules = loaded_by("compare", "--help")
    assert "diffattn.cli.compare" in modules
    assert "diffattn.cli.train" not in modules
    assert not modules & set(HEAVY)


def test_help_lists_every_command(capsys):
    assert call("--help") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)
    assert call() == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_has_examples(name, capsys):
    assert call(name, "--help") == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert f"\n    diffattn {name}" in shown


def test_version(capsys):
    assert call("--version") == 0
    assert capsys.readouterr().out.startswith("diffattn 0.")


def test_as_a_module():
    process = subprocess.run(
        [sys.executable, "-m", "diffattn", "--version"], capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0
    assert process.stdout.startswith("diffattn ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["comparee"], "comparee"),
        (["--loud"], "--loud"),
        (["compare", "--variant", "v1"], "--variants"),
        (["compare", "--seeds", "many"], "--seeds"),
        (["train"], "--out"),
        (["evaluate"], "RUN"),
        (["generate", "somewhere"], "--prompt"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments, message, capsys):
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("diffattn: ")
    assert captured.err.count("\n") == 1
    assert message.lower() in captured.err.lower()
    assert "--help" in captured.err


def test_a_fault_of_ours_has_a_traceback_and_status_1():
    program = "import diffattn.cli.main as m\nm._load = lambda name: 1 / 0\nm.main(['doctor'])"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert process.returncode == 1
    assert "Traceback" in process.stderr
    assert "ZeroDivisionError" in process.stderr


def test_ctrl_c_is_130_without_a_traceback(monkeypatch, capsys):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_load", interrupted)
    assert call("doctor") == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_closed_standard_output_is_no_fault_of_ours():
    command = f"{sys.executable} -m diffattn plan llama-7b --brief"
    closed = subprocess.run(f"{command} >&-", shell=True, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in closed.stderr
    full = subprocess.run(f"{command} > /dev/full", shell=True, capture_output=True, text=True, timeout=60)
    assert full.returncode == 2
    assert full.stderr == "diffattn: the standard output cannot be written (No space left on device)\n"


def test_a_package_that_is_missing_is_named_with_what_to_type(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.delitem(sys.modules, "diffattn.experiments.environment", raising=False)
    assert call("doctor") == 2
    assert capsys.readouterr().err == "diffattn: psutil is not installed: pip install 'diffattn[experiments]'\n"
