"""A comparison end to end: complete, honest about what it is, and the same however often it was stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diffattn.errors import UserError
from diffattn.experiments import compare as module
from diffattn.experiments.compare import compare
from diffattn.models import VARIANTS, count_parameters
from diffattn.training import load_run
from tiny import preset, request

TESTS = Path(__file__).parents[1]
PROGRAM = """
import sys
from pathlib import Path
from tiny import one_thread, request
from diffattn.experiments.compare import compare
with one_thread():
    compare(request(Path(sys.argv[1])), Path(sys.argv[2]), command="test", progress=False)
"""


@pytest.fixture(scope="module")
def whole(corpus_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare") / "whole"
    return folder, compare(request(corpus_folder), folder, command="diffattn compare", progress=False)


def test_results_are_complete(whole):
    folder, results = whole
    assert json.loads((folder / "results.json").read_text()) == results
    assert (results["schema"], results["kind"], results["command"]) == (1, "compare", "diffattn compare")
    assert set(results["versions"]) == {"python", "torch", "transformers", "tokenizers", "diffattn"}
    assert {"platform", "cpu", "cores", "memory_bytes", "device"} <= set(results["machine"])
    assert results["variants"] == ["softmax", "v1", "v2"]
    assert (results["baseline"], results["seeds"], results["match_parameters"]) == ("softmax", [0], True)
    assert results["settings"]["context"] == 16
    assert results["baseline_config"]["num_key_value_heads"] == 2
    corpus = results["corpus"]
    assert len(corpus["sha256"]) == 64
    assert corpus["splits"]["train"]["tokens"] > 0
    assert corpus["unigram_perplexity_word"]["test"] > 1
    assert [run["variant"] for run in results["runs"]] == ["softmax", "v1", "v2"]
    assert {entry["measure"] for entry in results["comparisons"]} > {"test.bits_per_byte"}
    assert "one seed" in " ".join(results["verdict"])
    assert set(results["speed"]["decode"]) == set(results["speed"]["train_step"]) == {"softmax", "v1", "v2"}


def test_each_run_has_all_its_measures(whole):
    for run in whole[1]["runs"]:
        assert {"tokens", "steps", "seconds", "tokens_per_second", "peak_memory_bytes"} <= set(run["training"])
        for split in ("validation", "test"):
            measured = run["evaluation"][split]
            assert measured["tokens"] <= 300
            assert min(measured["perplexity_token"], measured["perplexity_word"], measured["bits_per_byte"]) > 0
        assert len(run["curves"]["loss"]) == len(run["curves"]["tokens"])
        assert (run["curves"]["lambda"] is None) == (run["variant"] == "softmax")


def test_parameters_are_counted_as_the_model_has_them(whole):
    folder, results = whole
    for run in results["runs"]:
        model = load_run(folder / f"{run['variant']}-seed0").model
        assert run["parameters"]["total"] == model.num_parameters() == count_parameters(model.config).total
        attention = sum(p.numel() for name, p in model.named_parameters() if ".self_attn." in name)
        assert run["parameters"]["attention"] == attention
        assert run["parameters"]["total"] == pytest.approx(results["runs"][0]["parameters"]["total"], rel=0.05)


def test_report_is_one_page_with_the_verdict(whole):
    page = (whole[0] / "report.html").read_text()
    assert whole[1]["verdict"][0].split(":")[0] in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_done_again_it_trains_nothing_but_mends_the_report(whole, corpus_folder, monkeypatch):
    folder, results = whole
    (folder / "report.html").unlink()
    monkeypatch.delattr(module, "train")
    assert compare(request(corpus_folder), folder, command="another", progress=False) == results
    assert (folder / "report.html").exists()


def test_unmatched_parameters_and_another_baseline(corpus_folder, tmp_path):
    asked = request(
        corpus_folder, preset=preset(tokens=32 * 2), variants=("v2", "gated"), match_parameters=False, speed_rounds=1
    )
    results = compare(asked, tmp_path / "out", command="", progress=False)
    assert results["baseline"] == "v2"
    assert {run["parameters"]["intermediate_size"] for run in results["runs"]} == {40}


def start(corpus_folder, folder):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-c", PROGRAM, str(corpus_folder), str(folder)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for(process, pattern, folder, seconds=120):
    deadline = time.monotonic() + seconds
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_the_middle_it_goes_on_to_the_same_results(whole, corpus_folder, tmp_path, number):
    folder = tmp_path / "out"
    process = start(corpus_folder, folder)
    wait_for(process, "v1-seed0/checkpoints/*/complete.json", folder)
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode != 0
    assert not (folder / "results.json").exists()
    assert not (folder / "v1-seed0" / "training.json").exists()
    finished = (folder / "softmax-seed0" / "training.json").stat().st_mtime_ns

    results = compare(request(corpus_folder), folder, command="", progress=False)
    assert (folder / "softmax-seed0" / "training.json").stat().st_mtime_ns == finished
    for found, expected in zip(results["runs"], whole[1]["runs"], strict=True):
        assert found["variant"] == expected["variant"]
        assert found["evaluation"]["test"]["loss"] == pytest.approx(expected["evaluation"]["test"]["loss"], rel=1e-5)
        assert found["curves"]["loss"][-1] == pytest.approx(expected["curves"]["loss"][-1], rel=1e-5)


def test_another_request_in_the_folder_is_refused(whole, corpus_folder):
    with pytest.raises(UserError, match=r"another run \(seeds is 1 there, 2 here\)"):
        compare(request(corpus_folder, seeds=2), whole[0], command="", progress=False)
    changed = request(corpus_folder, preset=preset(learning_rate=0.5))
    with pytest.raises(UserError, match="learning_rate"):
        compare(changed, whole[0], command="", progress=False)


def test_a_changed_corpus_is_refused(corpus_folder, tmp_path):
    mine = shutil.copytree(corpus_folder, tmp_path / "words")
    folder = tmp_path / "out"
    module.claim_folder(folder, request(mine).to_dict())
    module.claim_corpus(folder, "0" * 64)
    with pytest.raises(UserError, match="corpus has changed"):
        compare(request(mine), folder, command="", progress=False)


def test_a_folder_with_other_things_is_refused(corpus_folder, tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match="not empty"):
        compare(request(corpus_folder), tmp_path, command="", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_requests_are_checked(corpus_folder):
    with pytest.raises(UserError, match=rf"'v3'.*{', '.join(VARIANTS)}"):
        request(corpus_folder, variants=("softmax", "v3"))
    with pytest.raises(UserError, match="twice"):
        request(corpus_folder, variants=("v1", "v1"))
    with pytest.raises(UserError, match="no variant"):
        request(corpus_folder, variants=())
    with pytest.raises(UserError, match="seeds"):
        request(corpus_folder, seeds=0)


def test_the_default_folder_belongs_to_the_request(corpus_folder):
    assert request(corpus_folder).folder_name == request(corpus_folder).folder_name
    assert request(corpus_folder).folder_name != request(corpus_folder, seeds=2).folder_name
