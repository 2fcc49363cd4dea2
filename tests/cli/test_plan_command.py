"""`diffattn plan`: what it prints and writes, how light it is, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from diffattn.cli.main import main
from diffattn.planning.presets import PRESETS

ROOT = Path(__file__).parents[2]


def call(*arguments):
    with pytest.raises(SystemExit) as leave:
        main([str(argument) for argument in arguments])
    return leave.value.code


def refused(capsys, *arguments):
    assert call("plan", *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("diffattn: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_numbers_are_never_cut_however_narrow_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert call("plan", "llama-7b") == 0
    shown = capsys.readouterr().out
    for words in ("Verdict on V2: consider", "67,108,864", "84,017,152", "6,738,415,616", "7,279,480,832", "9,632"):
        assert words in shown
    assert "…" not in shown


def test_json_and_markdown(tmp_path, capsys):
    page = tmp_path / "plan.md"
    assert call("plan", "qwen3-4b", "--context", "128K", "--batch", "1", "--json", "-", "--markdown", page) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["asked"]["contexts"] == [131072]
    assert found["sizes"]["softmax"]["total"] == 4_022_468_096
    assert page.read_text().startswith("# Differential attention for qwen3-4b\n")
    assert call("plan", "qwen3-4b", "--context", "128K", "--batch", "1", "--markdown", "-") == 0
    assert capsys.readouterr().out == page.read_text()


def test_a_file_a_folder_and_a_run(tmp_path, capsys):
    config = {**PRESETS["smollm2-135m"], "num_attention_heads": 8, "num_key_value_heads": 4}
    folder = tmp_path / "mine"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text(json.dumps(config))
    totals = set()
    for source in (folder, folder / "model", folder / "model" / "config.json"):
        assert call("plan", source, "--json", "-") == 0
        found = json.loads(capsys.readouterr().out)
        assert found["model"] == "mine"
        totals.add(found["sizes"]["v1"]["total"])
    assert len(totals) == 1


def test_prompt_and_skill_are_filled(capsys):
    ready = ("--training", "pretraining", "--task", "retrieval", "--long-data", "--long-evaluation")
    for option, title in (("--prompt", "# Evaluator"), ("--skill", "---\nname: diff-attention-integrator")):
        assert call("plan", "llama-3.1-8b", *ready, option) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(title)
        assert "8,571,326,464" in shown
        assert "Verdict on V2: use V2" in shown
    assert call("plan", "llama-3.1-8b", "--brief") == 0
    assert 8 < len(capsys.readouterr().out.splitlines()) < 16


def test_this_machine_is_measured_in_another_process(capsys):
    assert call("plan", "smollm2-135m", "--hardware", "cpu", "--dtype", "float32", "--json", "-") == 0
    hardware = json.loads(capsys.readouterr().out)["asked"]["hardware"]
    assert hardware["flops"] > 1e9
    assert hardware["bandwidth"] > 1e8
    assert hardware["name"].startswith("this CPU")


def test_a_machine_given_by_its_numbers(capsys):
    given = ("--flops", "2e14", "--bandwidth", "1e12", "--json", "-")
    assert call("plan", "llama-7b", *given) == 0
    assert json.loads(capsys.readouterr().out)["bounds"]["ridge"] == 200
    assert "both --flops and --bandwidth" in refused(capsys, "llama-7b", "--flops", "2e14")
    assert "above 0" in refused(capsys, "llama-7b", "--flops", "0", "--bandwidth", "1")


PROBE = """
import sys
from diffattn.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as leave:
    assert leave.code == 0
heavy = {"torch", "transformers", "numpy", "scipy", "matplotlib", "jinja2"} & set(sys.modules)
assert not heavy, heavy
"""


def test_it_loads_neither_torch_nor_transformers():
    arguments = ["plan", "llama-3.1-8b", "--prompt", "--json", "-"]
    process = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "no preset of that name: the presets are llama-7b"),
        (("llama-7b", "--context", "many"), "--context: expected whole numbers such as"),
        (("llama-7b", "--context", "1"), "contexts: expected whole numbers from 2"),
        (("llama-7b", "--batch", "1,,2"), "--batch: expected"),
        (("llama-7b", "--hardware", "abacus"), "hardware: expected h100"),
        (("llama-7b", "--variant", "v9"), "variant: expected one of"),
        (("llama-7b", "--correlation", "a"), "--correlation: expected numbers"),
        (("llama-7b", "--correlation", "2"), "correlation: expected -1 to 1"),
        (("llama-7b", "--strength", "0", "--margin", "8"), "strength: expected a number from 0.01 to 10"),
        (("llama-7b", "--lambda", "-1"), "lambda: expected a number from 0 to 100"),
        (("llama-7b", "--training", "luck"), "training: expected one of"),
        (("llama-7b", "--utilization", "2"), "utilization: expected"),
        (("llama-7b", "--difference", "0"), "difference: expected"),
        (("llama-7b", "--hardware", "a100", "--dtype", "float8"), "dtype: NVIDIA A100"),
        (("llama-7b", "--pilot", "nowhere.json"), "no file nowhere.json"),
        (("smollm2-135m", "--variant", "v1"), "smollm2-135m: variant: V1 pairs heads"),
        (("llama-7b", "--json", "-", "--markdown", "-"), "cannot both"),
        (("llama-7b", "--markdown", "-", "--prompt"), "has the standard output for itself"),
        (("llama-7b", "--context", "128KK"), "--context: expected whole numbers"),
        (("llama-7b", "--context", "9" * 400), "--context: expected whole numbers"),
        (("llama-7b", "--flops", "1e12", "--bandwidth", "nan"), "above 0"),
        (("llama-7b", "--price-device-hour", "nan"), "device_hour: expected 0 or more"),
        (("llama-7b", "--strength", "1e200", "--margin", "8"), "strength: expected a number from 0.01 to 10"),
        (("llama-7b", "--train-tokens", "inf"), "train_tokens: expected above 0"),
        (("llama-7b", "--hardware", "cpu", "--dtype", "float8"), "a CPU is measured in float32"),
        (("x" * 5000,), "no preset of that name"),
        (("",), "the name of the configuration is empty"),
        (("llama-7b", "--margin", "9"), "--margin and --strength are measured together"),
        (("llama-7b", "--pilot", str(ROOT / "docs/results/noise/v2/results.json")), "another kind ('noise')"),
    ],
)
def test_wrong_options_are_one_line(arguments, message, capsys):
    assert message in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "is not JSON"),
        ("[1, 2]", "holds no JSON object"),
        ("", "is not JSON"),
        ('{"model_type": "llama"}', "lacks it"),
        ('{"model_type": "mamba", "hidden_size": 8}', "model_type: expected a decoder-only"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_wrong_files_are_one_line(text, message, tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(text)
    said = refused(capsys, path)
    assert message in said
    assert str(path) in said


def test_names_are_shown_as_they_stand_and_units_are_read(tmp_path, capsys):
    config = {**PRESETS["smollm2-135m"], "model_type": "[/red]"}
    (tmp_path / "config.json").write_text("\ufeff" + json.dumps(config))
    assert call("plan", tmp_path, "--context", "1M,8k,8192") == 0
    shown = capsys.readouterr().out
    assert "model_type '[/red]' is not known here" in shown
    assert "1,048,576 x 1" in shown
    assert shown.count("\n8,192 x 1 ") == 1


def test_files_that_cannot_be_read_or_written(tmp_path, capsys):
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in refused(capsys, tmp_path / "config.json")
    (tmp_path / "empty").mkdir()
    assert "holds no config.json" in refused(capsys, tmp_path / "empty")
    assert "Markdown file" in refused(capsys, "llama-7b", "--markdown", tmp_path / "no" / "plan.md")
    (tmp_path / "results.json").write_text("{}")
    assert "pilot: expected finite test losses" in refused(capsys, "llama-7b", "--pilot", tmp_path / "results.json")


def test_presets_are_listed(capsys):
    assert call("plan", "presets") == 0
    assert capsys.readouterr().out.split() == list(PRESETS)


def test_the_projects_own_comparison_is_a_pilot(capsys):
    pilot = ROOT / "docs/results/wikitext-2-small"
    assert call("plan", "smollm2-135m", "--pilot", pilot, "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)["experiment"]
    assert found["pairs"] >= 2
    assert found["tokens"] == 2 * found["pairs"] * 3_000_000


def test_pages_quote_what_the_commands_print_now():
    spec = importlib.util.spec_from_file_location("plans", ROOT / "docs" / "plans.py")
    plans = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plans)
    quoted = 0
    for path in plans.PAGES:
        page = path.read_text()
        quoted += len(plans.BLOCK.findall(page))
        assert plans.with_plans(page) == page, f"{path.name} is out of date: run python docs/plans.py --write"
    assert quoted >= 6


def test_the_wheel_holds_the_artefacts():
    text = (ROOT / "pyproject.toml").read_text()
    assert '[tool.hatch.build.targets.wheel.force-include]\n"outputs" = "diffattn/outputs"\n' in text
    assert {path.name for path in (ROOT / "outputs").iterdir()} == {
        "prompt-diff-attention-evaluator.md",
        "skill-diff-attention-integrator.md",
    }
