"""Each command on the smallest of runs: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from diffattn.cli.main import main

SIZE = ["--tokens", "512", "--context", "16", "--batch-size", "8"]


def call(*arguments):
    with pytest.raises(SystemExit) as leave:
        main([str(argument) for argument in arguments])
    return leave.value.code


def complaint(capsys, *arguments):
    """The one line that a mistake of the user's gets."""
    capsys.readouterr()
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    # Rich ends a progress bar with a line break, even one that was never shown.
    said = captured.err.strip()
    assert said.startswith("diffattn: ")
    assert "\n" not in said
    return said


@pytest.fixture(scope="module")
def trained(corpus_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert call("train", "--data", corpus_folder, "--out", folder, *SIZE) == 0
    return folder


def test_train_says_where_the_model_is(trained, corpus_folder, capsys):
    arguments = ["train", "--data", corpus_folder, "--out", trained, *SIZE]
    assert call(*arguments) == 0
    assert str(trained / "model") in capsys.readouterr().out
    assert call(*arguments, "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == 512


def test_evaluate_measures_the_runs_own_corpus(trained, capsys):
    assert call("evaluate", trained, "--json", "-") == 0
    measured = json.loads(capsys.readouterr().out)
    assert (measured["split"], measured["context"], measured["corpus"]["name"]) == ("test", 16, "words")
    assert measured["perplexity_token"] > 1
    assert call("evaluate", trained, "--split", "validation", "--context", "8", "--max-tokens", "50") == 0
    assert "bits a byte" in capsys.readouterr().out
    assert len(list((trained / "data").iterdir())) == 1


def test_evaluate_writes_json_to_a_file(trained, tmp_path, capsys):
    assert call("evaluate", trained, "--json", tmp_path / "measured.json") == 0
    assert "perplexity a word" in capsys.readouterr().out
    assert json.loads((tmp_path / "measured.json").read_text())["tokens"] > 0


def test_evaluate_takes_another_corpus_and_a_bare_model(trained, tmp_path, capsys):
    text = tmp_path / "other.txt"
    text.write_text("nine ten one two three\n" * 400)
    assert call("evaluate", trained, "--data", text, "--json", "-") == 0
    measured = json.loads(capsys.readouterr().out)
    model = shutil.copytree(trained / "model", tmp_path / "model")
    before = sorted(model.iterdir())
    assert call("evaluate", model, "--data", text, "--context", "16", "--json", "-") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["bits_per_byte"] == pytest.approx(measured["bits_per_byte"])
    assert sorted(model.iterdir()) == before


def test_generate_goes_on_with_the_prompt(trained, capsys):
    assert call("generate", trained, "--prompt", "alpha beta", "--max-new-tokens", "5") == 0
    greedy = capsys.readouterr().out
    assert greedy.startswith("alpha beta")
    assert call("generate", trained, "--prompt", "alpha beta", "--max-new-tokens", "5") == 0
    assert capsys.readouterr().out == greedy
    sampled = ["generate", trained, "--prompt", "one", "--temperature", "2", "--max-new-tokens", "9", "--seed"]
    texts = []
    for seed in (1, 1, 2):
        assert call(*sampled, seed) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_compare_shows_the_table_and_the_verdict(corpus_folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["compare", "--variants", "softmax,v2", "--data", corpus_folder, *SIZE]
    assert call(*arguments) == 0
    shown = capsys.readouterr().out
    assert "Parameters" in shown
    assert "one seed" in shown
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("compare-quick-")
    assert {"compare.json", "results.json", "report.html"} <= {path.name for path in folder.iterdir()}
    assert call(*arguments, "--json", "-") == 0
    results = json.loads(capsys.readouterr().out)
    assert results == json.loads((folder / "results.json").read_text())
    assert "one of its runs (softmax-seed0, v2-seed0)" in complaint(capsys, "evaluate", folder)


def test_doctor_tells_what_serves(capsys):
    assert call("doctor") == 0
    shown = capsys.readouterr().out
    assert "torch" in shown
    assert "auto takes" in shown
    assert call("doctor", "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["cores"] >= 1
    for report in found["backends"].values():
        assert report["reasons"][report["auto"]] == []
        assert "reference" in report["reasons"]


def test_ctrl_c_says_how_to_go_on(corpus_folder, tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "diffattn", "train", "--data", str(corpus_folder), "--out", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, *SIZE, "--tokens", "200000"], env=environment, stderr=subprocess.PIPE, text=True
    )
    while not list(folder.glob("checkpoints/*")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("diffattn: stopped; the same command goes on from here: diffattn train")
    assert list(folder.glob("checkpoints/*/complete.json"))
    assert not (folder / "training.json").exists()


def test_bad_input_to_compare(corpus_folder, tmp_path, capsys):
    out = ["--out", tmp_path / "out"]
    known = "softmax, gated, v1, v2"
    assert known in complaint(capsys, "compare", "--variants", "softmax,v9", *out)
    assert "no variant" in complaint(capsys, "compare", "--variants", ",", *out)
    assert "quick or small" in complaint(capsys, "compare", "--preset", "vast", *out)
    assert "seeds" in complaint(capsys, "compare", "--seeds", "0", *out)
    assert "learning_rate" in complaint(capsys, "compare", "--learning-rate", "-1", *out)
    assert "dtype" in complaint(capsys, "compare", "--dtype", "float16", *out)
    assert "batch_size" in complaint(capsys, "compare", "--batch-size", "0", *out)
    assert "tokens" in complaint(capsys, "compare", "--tokens", "3", *out)
    assert not (tmp_path / "out").exists()
    assert "JSON" in complaint(capsys, "compare", "--json", tmp_path, *out)


def test_bad_corpora(tmp_path, capsys):
    out = ["--out", tmp_path / "out"]
    assert "nowhere" in complaint(capsys, "compare", "--data", tmp_path / "nowhere", *out)
    (tmp_path / "empty.txt").write_text("")
    assert "empty.txt" in complaint(capsys, "train", "--data", tmp_path / "empty.txt", *out)
    (tmp_path / "folder").mkdir()
    assert "train" in complaint(capsys, "train", "--data", tmp_path / "folder", *out)
    for lines in (40, 4000):  # the whole corpus, or only its validation split, is shorter than one context
        (tmp_path / "short.txt").write_text("one two three\n" * lines)
        short = ["--data", tmp_path / "short.txt", "--out", tmp_path / f"short{lines}", "--context", 1024]
        assert "context of 1,024" in complaint(capsys, "train", *short)
        assert "context of 1,024" in complaint(
            capsys, "compare", *short[:2], "--out", tmp_path / f"c{lines}", *short[4:]
        )
        assert not list(tmp_path.glob("*/training.json")) + list(tmp_path.glob("*/*/training.json"))


def test_no_network_for_wikitext(tmp_path):
    """The only place for the hub's files is an empty cache, and the hub is declared out of reach."""
    command = [sys.executable, "-m", "diffattn", "train", "--data", "wikitext-2", "--out", str(tmp_path / "out")]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert process.returncode == 2
    assert "Traceback" not in process.stderr
    assert process.stderr.splitlines()[-1].startswith("diffattn: ")
    assert not (tmp_path / "out" / "training.json").exists()


def test_another_run_in_the_folder(trained, corpus_folder, tmp_path, capsys):
    same = ["--data", corpus_folder, "--out", trained, *SIZE]
    assert "another run" in complaint(capsys, "train", *same, "--learning-rate", "0.5")
    assert "another run" in complaint(capsys, "train", *same, "--variant", "v1")
    assert "another run" in complaint(capsys, "train", *same, "--preset", "small")
    assert "not empty" in complaint(capsys, "compare", *same)
    assert "no variant 'v9'" in complaint(capsys, "train", *same, "--variant", "v9")
    (tmp_path / "file").write_text("")
    assert "file" in complaint(capsys, "train", "--data", corpus_folder, "--out", tmp_path / "file")


def test_bad_input_to_evaluate_and_generate(trained, tmp_path, capsys):
    assert "use at most 16" in complaint(capsys, "evaluate", trained, "--context", "17")
    assert "split" in complaint(capsys, "evaluate", trained, "--split", "dev")
    assert "batch_size" in complaint(capsys, "evaluate", trained, "--batch-size", "0")
    assert "no folder" in complaint(capsys, "evaluate", tmp_path / "nowhere")
    assert "no model" in complaint(capsys, "generate", tmp_path, "--prompt", "a")
    assert "temperature" in complaint(capsys, "generate", trained, "--prompt", "a", "--temperature", "-1")
    assert "shorter prompt" in complaint(capsys, "generate", trained, "--prompt", "one two three " * 20)
    assert "from 1 to" in complaint(capsys, "generate", trained, "--prompt", "a", "--max-new-tokens", "16")


def test_weights_of_another_shape(trained, tmp_path, capsys):
    model = shutil.copytree(trained / "model", tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))
    assert "another model's" in complaint(capsys, "generate", model, "--prompt", "a")


def test_an_unfinished_run_is_not_taken_for_one(trained, tmp_path, capsys):
    shutil.copy(trained / "run.json", tmp_path / "run.json")
    assert "has not finished" in complaint(capsys, "evaluate", tmp_path)
