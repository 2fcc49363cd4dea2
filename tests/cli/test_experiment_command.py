"""`diffattn experiment` and `diffattn reproduce`: what they print, write and refuse."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from diffattn.cli.main import main
from diffattn.experiments.studies import language, stability, study
from tiny_studies import study_request


def call(*arguments):
    with pytest.raises(SystemExit) as leave:
        main([str(argument) for argument in arguments])
    return leave.value.code


@pytest.fixture(scope="module")
def finished(corpus_folder, tmp_path_factory):
    """`diffattn experiment stability` at the tiniest size, with its results on standard output."""
    folder = tmp_path_factory.mktemp("experiment") / "out"
    with pytest.MonkeyPatch.context() as patch:
        tiny = study_request("stability", corpus_folder).preset
        patch.setitem(stability.PRESETS, "default", tiny)
        given = ["--data", corpus_folder, "--out", folder, "--rates", "1e-2", "--workers", "1"]
        assert call("experiment", "stability", *given, "--json", folder.parent / "also.json") == 0
        yield folder, given


def test_it_prints_tables_verdict_and_places(finished, capsys):
    folder, given = finished
    assert call("experiment", "stability", *given) == 0
    said = capsys.readouterr().out
    for words in ("Events, without clipping", "Without clipping, no event", str(folder / "report.html"), "V1"):
        assert words in said
    assert (folder.parent / "also.json").read_text() == (folder / "results.json").read_text()


def test_json_alone_on_standard_output(finished, capsys):
    folder, given = finished
    assert call("experiment", "stability", *given, "--json", "-") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == json.loads((folder / "results.json").read_text())
    assert "Events, without clipping" in captured.err


def test_reproduce_finds_no_difference_and_then_the_altered_number(finished, tmp_path, capsys):
    folder, _ = finished
    again = ["--out", tmp_path / "again", "--workers", "1"]
    assert call("reproduce", folder / "results.json", *again, "--json", "-") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["differing"] == 0
    assert "values compared, 0 differ" in captured.err
    results = json.loads((folder / "results.json").read_text())
    results["runs"][0]["curves"]["loss"][0] *= 2
    results["machine"]["cpu"] = "an abacus"
    (tmp_path / "altered.json").write_text(json.dumps(results))
    assert call("reproduce", tmp_path / "altered.json", *again) == 0
    said = capsys.readouterr().out
    assert "1 differ" in said
    assert "largest relative difference 0.5" in said
    assert "runs[0].curves.loss[0]" in said
    assert "machine: cpu an abacus then" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["alchemy"], "there is no study 'alchemy': use needle"),
        ([], "STUDY"),
        (["needle", "--preset", "huge"], "there is no preset 'huge' of needle"),
        (["language", "--variants", "softmax,v9"], "there is no variant 'v9'"),
        (["language", "--variants", ","], "no variant was named"),
        (["lambda", "--variants", "v1"], "the study lambda takes no --variants"),
        (["needle", "--data", "wikitext-2"], "--data goes with the studies of text only"),
        (["needle", "--seeds", "0"], "seeds must be at least 1"),
        (["needle", "--seeds", "many"], "--seeds"),
        (["needle", "--rates", "fast"], "--rates: expected numbers"),
        (["needle", "--rates", "0"], "rates must be one or more different numbers above 0"),
        (["needle", "--workers", "0"], "--workers"),
        (["needle", "--json", "/nowhere/at/all.json"], "JSON"),
        (["language", "--data", "nowhere-at-all"], "nowhere-at-all"),
    ],
)
def test_a_mistake_is_one_line_before_any_run(arguments, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in (language, study):
        monkeypatch.setattr(module, "Laboratory", None)
    assert call("experiment", *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("diffattn: ")
    assert captured.err.strip().count("\n") == 0
    assert words in captured.err


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "holds no results"), ("{}", "holds no results"), ("{", "damaged"), ('{"kind": "experiment"}', "not whole")],
)
def test_reproduce_refuses_in_one_line(content, words, tmp_path, capsys):
    path = tmp_path / "out" / "results.json"
    path.parent.mkdir()
    if content:
        path.write_text(content)
    assert call("reproduce", path) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert [place.name for place in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("command", ["experiment", "reproduce"])
def test_help_has_examples_and_loads_nothing_heavy(command):
    program = (
        "import sys\nfrom diffattn.cli.main import main\n"
        f"try:\n    main(['{command}', '--help'])\nexcept SystemExit as leave:\n    assert leave.code == 0\n"
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'transformers'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    assert "Examples:" in process.stdout
    assert process.stdout.count(f"diffattn {command} ") >= 2


def test_ctrl_c_says_how_to_go_on(corpus_folder, tmp_path, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stability, "collect", interrupted)
    assert call("experiment", "stability", "--data", corpus_folder, "--out", tmp_path / "out") == 130
    assert "the same command goes on from here" in capsys.readouterr().err
    assert (tmp_path / "out" / "protocol.json").exists()
