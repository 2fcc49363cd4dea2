"""Every study from its request to its page, at the tiniest size, with a rate at which trainings break down."""

from __future__ import annotations

import json

import pytest

from diffattn.experiments.studies.study import STUDIES, run_study
from tiny_studies import BREAKING, study_request


def tables(results):
    return {table["name"]: table for table in results["tables"]}


@pytest.mark.parametrize("name", STUDIES)
def test_it_writes_all_that_a_reader_needs(finished, name):
    folder, results = finished(name)
    assert json.loads((folder / "results.json").read_text()) == results
    assert (results["kind"], results["experiment"], results["command"]) == ("experiment", name, f"diffattn {name}")
    assert results["protocol"]["hypotheses"]
    assert "{" not in json.dumps([results["protocol"][key] for key in ("stopping_rule", "analysis")])
    said = [one.get("name") for one in results["protocol"]["hypotheses"]]
    assert [one["hypothesis"] for one in results["outcomes"]] == said
    assert (results["corpus"] is None) == (name == "needle")
    page = (folder / "report.html").read_text()
    for sentence in results["verdict"]:
        assert sentence[:40] in page
    charts = {ending: {path.stem for path in (folder / "charts").glob(f"*.{ending}")} for ending in ("png", "svg")}
    assert charts["png"] == charts["svg"]
    assert len(charts["png"]) == len({chart["name"] for chart in results["charts"]}) == len(results["charts"]) > 2
    for table in results["tables"]:
        assert table["rows"]
        assert {len(row) for row in table["rows"]} == {len(table["head"])}


def test_language_tunes_around_what_breaks_down(finished):
    _, results = finished("language")
    assert {entry["rate"] for entry in results["tuning"].values()} == {1e-2}
    assert all(row[2] == "broke down" for row in tables(results)["tuning"]["rows"])
    assert len(results["runs"]) == 6
    assert [one["at"] for one in results["comparisons"]] == [
        f"equal {at}" for at in ("tokens", "parameters", "training FLOPs", "wall time")
    ]
    first = results["comparisons"][0]
    tests = {(r["variant"], r["seed"]): r["evaluation"]["test"]["bits_per_byte"] for r in results["runs"]}
    differences = [tests["v2", seed] - tests["softmax", seed] for seed in (0, 1)]
    assert first["difference_mean"] == pytest.approx(sum(differences) / 2)
    assert first["parts"]["difference_mean"] == pytest.approx(sum(differences) / 2, abs=1e-5)
    assert first["parts"]["interval_low"] < first["parts"]["difference_mean"] < first["parts"]["interval_high"]
    assert [row[0] for row in tables(results)["switch-off"]["rows"]] == ["V2"]


def test_lambda_with_one_seed_says_that_nothing_follows(finished):
    _, results = finished("lambda")
    assert {one["outcome"] for one in results["outcomes"]} == {"not measured"}
    assert all("one seed has no interval, so nothing follows" in one["sentence"] for one in results["outcomes"])
    said = "Beside V1 layer, schedule, not measured: fixed 0.8. Beside V2 token, not measured: head."
    assert results["verdict"] == [said]
    assert tables(results)["comparisons"]["rows"][0][3] == "\N{EN DASH}"


def test_scale_takes_the_slope_of_its_gains(finished):
    _, results = finished("scale")
    (found,) = results["slopes"]
    assert len(found["points"]) == 4
    assert len({x for x, _ in found["points"]}) == 2
    assert found["interval_low"] < found["slope"] < found["interval_high"]
    assert results["verdict"] == [found["sentence"]]
    assert results["charts"][0]["name"] == "gain"


def test_stability_reports_what_diverged_and_no_number_of_it(finished):
    _, results = finished("stability")
    found = tables(results)
    for row in found["loss-clip0"]["rows"]:
        assert row[2] == "diverged"
        assert float(row[1]) > 0
    assert all("diverged 1 of 1" in row[2] for row in found["events-clip0"]["rows"])
    assert len(results["failures"]) == 2
    assert all("not clipped: diverged" in sentence for sentence in results["failures"])
    assert "up to 0.01" in results["verdict"][0]
    broken = [run for run in results["runs"] if run["learning_rate"] == BREAKING]
    assert all(run["evaluation"] == run["measures"] == {} and run["diverged_at"] for run in broken)


def test_needle_asks_every_condition_at_every_length(finished):
    _, results = finished("needle")
    assert [(run["condition"], run["variant"]) for run in results["runs"]] == [
        (condition, variant) for condition in ("plain", "floor", "absent") for variant in ("softmax", "v2")
    ]
    for run in results["runs"]:
        assert set(run["retrieval"]) == {"32", "64"}
        assert bool(run["mass"]) == (run["condition"] != "floor")
        assert ("switch_off" in run) == (run["variant"] == "v2" and run["condition"] != "floor")
    assert [run["steps"] for run in results["runs"]] == [6, 6, 6, 6, 10, 10]
    assert {"accuracy-plain", "costs-floor", "fabrication", "attention", "comparisons"} <= set(tables(results))


def test_needle_with_every_training_broken(corpus_folder, tmp_path):
    asked = study_request("needle", corpus_folder, rates=(BREAKING,), conditions=("plain",))
    results = run_study(asked, tmp_path / "out", command="", progress=False)
    assert len(results["failures"]) == 2
    assert all("diverged, its loss was not finite at step" in sentence for sentence in results["failures"])
    assert [row[1:] for row in tables(results)["accuracy-plain"]["rows"]] == [["\N{EN DASH}"] * 2] * 2
    assert [row[0] for row in tables(results)["accuracy-plain"]["rows"]] == [
        "softmax (not learned)",
        "V2 (not learned)",
    ]
    assert "not measured: accuracy (plain)" in results["verdict"][0]


def test_language_with_every_training_broken(corpus_folder, tmp_path):
    asked = study_request("language", corpus_folder, rates=(BREAKING,), seeds=1, variants=("softmax", "v1"))
    results = run_study(asked, tmp_path / "out", command="", progress=False)
    for row in tables(results)["variants"]["rows"]:
        assert row[5:] == ["\N{EN DASH}", "\N{EN DASH}", "1 of 1"]
    assert len(results["failures"]) == 2
    assert results["verdict"] == ["V1: not measured at equal tokens, parameters, training FLOPs and wall time."]
    assert all("V1 and softmax diverged" in one["sentence"] for one in results["outcomes"])
