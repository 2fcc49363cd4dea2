"""`diffattn noise`: what it prints and writes, what it refuses, and what Ctrl-C leaves."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

from diffattn.cli.main import main

SIZE = ["--length", "512", "--lengths", "256,1024", "--draws", "4"]


def call(*arguments):
    with pytest.raises(SystemExit) as leave:
        main(["noise", *map(str, arguments)])
    return leave.value.code


@pytest.fixture
def no_work(monkeypatch):
    """Fails where scores are drawn."""

    def worked(*arguments, **options):
        raise AssertionError("scores were drawn")

    monkeypatch.setattr("diffattn.experiments.noise.laboratory.measure_all", worked)


def test_it_prints_tables_and_answers(capsys):
    assert call(*SIZE, "--lambda", "0.3") == 0
    shown = capsys.readouterr().out
    for words in (
        "1,024",
        "lambda 0.3",
        "top-k (64 keys kept)",
        "How high is the floor?",
        "When does it",
    ):
        assert words in shown
    assert "results.json" not in shown


def test_json_on_standard_output_is_alone(capsys):
    assert call(*SIZE, "--json", "-", "--seed", "3") == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert (found["kind"], found["seed"], found["options"]["lengths"]) == ("noise", 3, [256, 512, 1024])
    assert "How high is the floor?" in captured.err


def test_out_holds_results_tables_page_and_plots(tmp_path, capsys):
    place = tmp_path / "runs" / "noise"
    assert call(*SIZE, "--out", place, "--json", tmp_path / "also.json") == 0
    assert str(place / "report.html") in capsys.readouterr().out
    names = {path.name for path in place.iterdir()}
    plots = {name for name in names if name.endswith((".png", ".svg"))}
    assert names - plots == {"results.json", "tables.md", "report.html"}
    assert len(plots) == 24
    assert {name.removesuffix(".png") for name in plots if name.endswith("png")} == {
        name.removesuffix(".svg") for name in plots if name.endswith("svg")
    }
    assert (place / "results.json").read_text() == (tmp_path / "also.json").read_text()


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--correlation", "1.5"], "--correlation"),
        (["--length", "1"], "--length: expected"),
        (["--length", "many"], "--length"),
        (["--lengths", "1024,x"], "--lengths: expected whole numbers"),
        (["--lengths", ","], "--lengths: expected whole numbers"),
        (["--lengths", "8,1"], "--lengths: expected"),
        (["--lambda", "half"], "--lambda"),
        (["--lambda", "nan"], "--lambda: expected"),
        (["--lambda", "-1"], "--lambda: expected"),
        (["--margin", "0"], "--margin: expected"),
        (["--strength", "inf"], "--strength: expected"),
        (["--draws", "1"], "--draws: expected"),
        (["--sigma", "1"], "--sigma"),
        (["--json", "/nowhere/at/all.json"], "JSON"),
    ],
)
def test_bad_input_is_one_line_before_any_work(arguments, words, capsys):
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("diffattn: ")
    assert captured.err.count("\n") == 1
    assert words in captured.err


@pytest.mark.usefixtures("no_work")
def test_a_folder_in_use_is_refused_before_any_work(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("kept")
    for out in (tmp_path, tmp_path / "mine.txt", tmp_path / "mine.txt" / "below"):
        assert call("--out", out) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("diffattn: ")
        assert captured.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("place", ["laboratory.measure_all", "folder.markdown"])
def test_ctrl_c_leaves_nothing(place, tmp_path, capsys, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"diffattn.experiments.noise.{place}", interrupted)
    assert call(*SIZE, "--out", tmp_path / "noise", "--json", tmp_path / "also.json") == 130
    assert list(tmp_path.iterdir()) == []
    assert "Traceback" not in capsys.readouterr().err


def test_help_loads_nothing_heavy():
    program = (
        "import sys\nfrom diffattn.cli.main import main\n"
        "try:\n    main(['noise', '--help'])\nexcept SystemExit as leave:\n    assert leave.code == 0\n"
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'transformers'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    assert "--correlation" in process.stdout


def test_a_trained_model_is_measured_head_by_head(tmp_path, capsys):
    chance, words = random.Random(0), [f"w{i}" for i in range(40)]
    text = tmp_path / "words.txt"
    text.write_text("".join(" ".join(chance.choices(words, k=8)) + "\n" for _ in range(600)))
    run = tmp_path / "run"
    with pytest.raises(SystemExit):
        main(
            ["train", "--data", str(text), "--out", str(run), "--tokens", "512", "--context", "64", "--batch-size", "2"]
        )
    capsys.readouterr()
    given = ["--lengths", "32,64", "--probes", "2", "--depths", "0,1", "--out", tmp_path / "noise"]
    assert call("--run", run, *given) == 0
    shown = capsys.readouterr().out
    for part in (
        "Does this model have the problem?",
        "What does the subtraction remove?",
        "Over length: medians of the heads",
    ):
        assert part in shown
    stored = json.loads((tmp_path / "noise" / "results.json").read_text())
    assert {row["length"] for row in stored["heads"]} == {32, 64}
    assert (tmp_path / "noise" / "heads-correlation.png").stat().st_size > 1000
    assert call("--model", run / "model", "--data", text, *given[:-1], tmp_path / "other", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["options"]["model"] == str(run / "model")
    assert call("--run", run, "--lengths", "4096") == 2
    assert "use at most" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", "nowhere"], "there is no folder nowhere"),
        (["--model", "no/where/at-all"], "there is no folder no/where/at-all"),
        (["--run", "a", "--model", "b"], "name one of --run and --model"),
        (["--run", "a", "--depths", "deep"], "--depths: expected numbers"),
        (["--run", "a", "--margin", "3"], "--margin goes without --run and --model only"),
        (["--run", "a", "--lambda", "3"], "--lambda goes without"),
        (["--depths", "0,1"], "--depths goes with --run or --model only"),
        (["--lengths", "9" * 400], "--lengths: expected"),
        (["--run", "a", "--lengths", "1.5"], "--lengths: expected whole numbers"),
    ],
)
def test_models_that_cannot_be_measured(arguments, message, capsys):
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err
