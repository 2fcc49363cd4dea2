"""Results run again: nothing differs on the same machine, and what was altered is found."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from dataclasses import replace

import pytest

from diffattn.errors import UserError
from diffattn.experiments import presets
from diffattn.experiments.compare import compare
from diffattn.experiments.noise import NoiseRequest, run_noise
from diffattn.experiments.reproduce import differences, reproduce
from diffattn.experiments.studies.study import run_study
from tiny import preset, request
from tiny_studies import study_request


def again(results, tmp_path, name="results.json"):
    (tmp_path / name).write_text(json.dumps(results))
    return reproduce(tmp_path / name, tmp_path / "again", command="reproduce", progress=False)


def doctored(results, change):
    copy = deepcopy(results)
    change(copy)
    return copy


@pytest.fixture(scope="module")
def study(corpus_folder, tmp_path_factory):
    asked = study_request("language", corpus_folder, rates=(1e-2,), measures=(), seeds=1, variants=("softmax", "v1"))
    return run_study(asked, tmp_path_factory.mktemp("study") / "out", command="", progress=False)


def test_a_study_comes_out_the_same_and_an_altered_number_is_found(study, tmp_path):
    found = again(study, tmp_path)
    assert (found["kind"], found["differing"], found["largest"], found["differences"]) == ("experiment", 0, 0.0, [])
    assert found["numbers"] > 200
    assert "versions" not in found

    def change(results):
        results["runs"][1]["curves"]["loss"][2] *= 1.25
        results["runs"][0]["parameters"] = None
        results["step_ratios"]["v1"]["ratio_median"] = 99.0
        results["versions"]["torch"] = "1.0"

    found = again(doctored(study, change), tmp_path)
    assert (found["differing"], found["numbers"]) == (2, pytest.approx(found["numbers"]))
    gone, loss = found["differences"]
    assert (gone["at"], gone["before"], gone["relative"]) == ("runs[0].parameters", None, None)
    assert loss["at"] == "runs[1].curves.loss[2]"
    assert loss["before"] == pytest.approx(1.25 * loss["now"])
    assert loss["relative"] == found["largest"] == pytest.approx(0.2)
    assert found["versions"]["before"]["torch"] == "1.0"


def test_what_measured_speeds_decide_is_not_compared(study):
    def change(results):
        for entry in results["comparisons"]:
            entry["p_holm"] = 0.5
            if entry["at"] == "equal wall time":
                entry["difference_mean"] = 7.0

    other = doctored(study, change)
    assert [at for at, before, now in differences(study, other) if before != now] == []
    other["comparisons"][0]["difference_mean"] = 7.0
    assert [at for at, before, now in differences(study, other) if before != now] == ["comparisons[0].difference_mean"]


def test_a_comparison_comes_out_the_same(corpus_folder, tmp_path, monkeypatch):
    tiny = replace(preset(tokens=16 * 2 * 4), evaluation_tokens=200)
    monkeypatch.setitem(presets.PRESETS, "tiny", replace(tiny, evaluation_tokens=None))
    corpus = shutil.copytree(corpus_folder, tmp_path / "with space" / "words")
    asked = request(corpus, preset=tiny, variants=("softmax",), speed_rounds=1)
    command = f"diffattn compare '--data={corpus}' --out elsewhere"
    results = compare(asked, tmp_path / "first", command=command, progress=False)
    found = again(results, tmp_path)
    assert (found["kind"], [one["at"] for one in found["differences"]]) == ("compare", [])


def test_noise_comes_out_the_same(tmp_path):
    asked = NoiseRequest(length=512, lengths=(256, 512), draws=4, seed=3, lam=0.3)
    results = run_noise(asked, command="", progress=False)
    assert again(results, tmp_path)["differing"] == 0
    changed = doctored(results, lambda copy: copy["losing_strengths"][0].update(strength=1e9))
    assert [one["at"] for one in again(changed, tmp_path)["differences"]] == ["losing_strengths[0].strength"]


def test_every_leaf_is_compared():
    before = {"a": [1, {"b": 2.0}], "c": None, "seconds": 1}
    now = {"a": [1, {"b": 3.0}, 4], "d": "x", "seconds": 2}
    assert list(differences(before, now)) == [
        ("a[0]", 1, 1),
        ("a[1].b", 2.0, 3.0),
        ("a[2]", None, 4),
        ("c", None, None),
        ("d", None, "x"),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "holds no results that can be run again: name a results.json of compare, experiment, noise"),
        ("[]", "holds no results"),
        ('{"kind": "lesson"}', "holds no results"),
        ("{", "is damaged"),
        ('{"kind": "experiment"}', "not whole"),
        ('{"kind": "experiment", "request": {"study": "alchemy", "preset": {}}}', "not whole"),
        ('{"kind": "compare", "settings": {"colour": 1}}', "another version of diffattn"),
        ('{"kind": "noise", "options": {"model": "x"}, "seed": 0}', "is of a trained model"),
    ],
)
def test_what_cannot_be_run_again(content, words, tmp_path):
    path = tmp_path / "results.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError) as caught:
        reproduce(path, tmp_path / "again", command="", progress=False)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "again").exists()


def test_a_folder_is_no_results_file(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        reproduce(tmp_path, tmp_path / "again", command="", progress=False)
