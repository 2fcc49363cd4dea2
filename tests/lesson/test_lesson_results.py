"""The numbers of trained models: what is stored is what docs/results has, and the words follow the numbers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from diffattn.lesson import trained
from diffattn.lesson.outcomes import outcomes
from diffattn.lesson.pages import terminal
from diffattn.lesson.parts import found_needles, small_model, stable_runs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("lesson_results", ROOT / "docs" / "lesson_results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("study", ["needle", "language", "stability"])
def test_the_lesson_has_the_numbers_of_docs_results(script, study):
    found = script.taken(study)
    if found is None:
        pytest.skip(f"docs/results has no {study}: the lesson shows a trial's numbers, and says so")
    assert json.loads(json.dumps(found)) == json.loads(script.STORED.read_text())[study], (
        "out of date: run python docs/lesson_results.py --write"
    )


def test_what_is_stored_says_whether_it_is_a_trial(script):
    stored = json.loads(script.STORED.read_text())
    assert set(stored) == set(script.STUDIES)
    for study, found in stored.items():
        assert found["trial"] == (not (script.RESULTS / study / "results.json").exists())
        assert ("short trial run" in trained.origin(found)) == found["trial"]


def test_the_layout_is_json_with_a_line_for_each_run(script):
    stored = json.loads(script.STORED.read_text())
    text = script.laid_out(stored)
    assert json.loads(text) == stored
    assert text == script.STORED.read_text()
    lines = text.splitlines()
    assert sum(line.startswith('  {"') for line in lines) >= sum(len(found["runs"]) for found in stored.values())


def test_writing_keeps_what_the_folder_lacks(script, tmp_path, monkeypatch, capsys):
    target = tmp_path / "trained.json"
    target.write_text(script.STORED.read_text())
    monkeypatch.setattr(script, "STORED", target)
    script.main(["--write", "--results", str(tmp_path)])
    assert target.read_text() == (ROOT / "src/diffattn/lesson/trained.json").read_text()
    assert capsys.readouterr().out == "needle: not there\nlanguage: not there\nstability: not there\n"


def entry(variant, outcome, at, detectable=0.02):
    return {"variant": variant, "outcome": outcome, "at": at, "detectable": detectable, "unit": "bits"}


def test_outcomes_in_words():
    found = {"names": {"v1": "V1", "v2": "V2"}}
    entries = [
        entry("v1", "contradicted", "tokens"),
        entry("v2", "supported", "tokens"),
        entry("v2", "not resolved", "parameters"),
        entry("v2", "not resolved", "time", 0.05),
        entry("v2", "not measured", "FLOPs", None),
    ]
    assert outcomes(found, entries, lambda one: one["at"]) == (
        "V1: worse (tokens); V2: better (tokens), not told apart (parameters and time; a difference under 0.02 to 0.05 "
        "bits stays unseen), not compared (FLOPs)."
    )
    assert outcomes(found, [], str) == "Nothing was compared."


def test_a_seed_that_broke_down_leaves_no_mean():
    assert trained.over_seeds([1.0, None]) is None
    assert trained.over_seeds([1.0, float("nan")]) is None
    assert trained.over_seeds([]) is None
    assert trained.over_seeds([0.5]) == 0.5
    assert trained.over_seeds([1.0, 3.0]).edges == pytest.approx((2 - 12.7062, 2, 2 + 12.7062), abs=1e-3)


def change(monkeypatch, study, **fields):
    """Let the lesson find other numbers for a study."""
    stored = {**trained._stored(), study: {**trained.study(study), **fields}}
    monkeypatch.setattr(trained, "_stored", lambda: stored)
    small_model.compared.cache_clear()


@pytest.fixture
def clean():
    yield
    small_model.compared.cache_clear()


@pytest.mark.usefixtures("clean")
def test_the_words_of_part_11_follow_the_numbers(monkeypatch):
    values = {"values": [1.50, 1.51, 1.49], "baseline_values": [1.60, 1.605, 1.595], "detectable": 0.02}
    better = {**trained.study("language")["comparisons"][-1], **values, "outcome": "supported", "p_holm": 0.001}
    change(monkeypatch, "language", comparisons=[better])
    assert "is not 0" in small_model.a_paired_difference().shows
    assert "better (" in small_model.many_questions().shows
    change(monkeypatch, "language", comparisons=[{**better, "values": [1.50, None, 1.49]}])
    for step in (small_model.a_paired_difference, small_model.many_questions, small_model.what_could_be_seen):
        assert step().shows == "One seed has no spread, so nothing follows from it."
        assert terminal.step(step(), "11.2")


def test_a_variant_that_did_not_learn_is_left_out(monkeypatch):
    runs = [{**run, "learned": run["variant"] != "v2"} for run in trained.study("needle")["runs"]]
    change(monkeypatch, "needle", runs=runs)
    step = found_needles.small_models_find()
    assert {row[2] for row in step.table.rows if row[1] == "V2"} == {"not learned"}
    assert all(series.name != "V2, measured" for chart in step.charts for series in chart.series)


def test_a_study_without_its_condition_or_variants(monkeypatch):
    change(monkeypatch, "needle", runs=[], comparisons=[])
    assert found_needles.small_models_invent().table.rows[0][0] == "not measured"
    assert found_needles.small_models_find().shows == "Against softmax: Nothing was compared."


def test_outcomes_of_stability_are_the_studys():
    said = stable_runs.where_it_broke().shows + stable_runs.the_norm_in_training().shows
    for one in trained.study("stability")["outcomes"]:
        assert f"is {one['outcome']}: {one['sentence']}" in said
