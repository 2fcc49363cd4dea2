"""docs/results/README.md says of the studies what their results files hold, and nothing that they do not."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def load():
    spec = importlib.util.spec_from_file_location("studies", DOCS / "studies.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


studies = load()
NAMES = sorted(studies.TABLES)


def results(name):
    return json.loads((DOCS / "results" / name / "results.json").read_text())


def test_the_page_is_the_one_made_now():
    page = studies.PAGE.read_text()
    assert sorted(found[1] for found in studies.BLOCK.findall(page)) == NAMES
    assert studies.with_studies(page) == page, "out of date: run python docs/studies.py --write"


def test_writing_puts_every_part_in_and_changes_nothing_else(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(studies, "PAGE", tmp_path / "README.md")
    studies.PAGE.write_text("before\n<!-- study needle -->\nold\n<!-- /study -->\nafter\n")
    studies.main([])
    assert "old" in studies.PAGE.read_text()
    studies.main(["--write"])
    written = studies.PAGE.read_text()
    assert written.startswith("before\n<!-- study needle -->\n\n`diffattn experiment needle ")
    assert written.endswith("\n\n<!-- /study -->\nafter\n")
    assert capsys.readouterr().out == "README.md: out of date\n" * 2


@pytest.mark.parametrize("name", NAMES)
def test_a_study_was_run_as_it_says(name):
    stored = results(name)
    assert stored["kind"] == "experiment"
    assert stored["experiment"] == name
    assert stored["preset"] == "default"
    assert stored["seconds"] < 90 * 60
    assert stored["protocol"]["written"] < stored["created"]
    assert len(stored["seeds"]) >= {"language": 5, "stability": 1}.get(name, 3)
    if name == "stability":
        assert len(stored["rates"]) >= 4
        assert min(run["steps"] for run in stored["runs"]) >= 1000


@pytest.mark.parametrize("name", NAMES)
def test_a_study_claims_no_more_than_its_intervals(name):
    stored = results(name)
    for entry in stored.get("comparisons") or ():
        low, high = entry["interval_low"], entry["interval_high"]
        if entry["outcome"] in ("supported", "contradicted"):
            assert entry["p_holm"] < 0.05
            assert not low <= 0 <= high, "an interval that holds 0 decides nothing"
            assert (high < 0) == ((entry["outcome"] == "supported") == entry["lower"])
        else:
            assert not re.search(r": (better|worse)\.", entry["sentence"])
    assert len(stored["verdict"]) >= 1


@pytest.mark.parametrize("name", NAMES)
def test_every_run_is_there_and_the_broken_ones_are_named(name):
    stored = results(name)
    broken = [run for run in stored["runs"] if run["diverged_at"] is not None]
    missed = [run for run in stored["runs"] if run.get("learned") is False and run["diverged_at"] is None]
    assert len(stored["failures"]) == len(broken) + len(missed)
    assert {run["seed"] for run in stored["runs"]} == set(stored["seeds"])
    assert {run["variant"] for run in stored["runs"]} == set(stored["variants"])


def test_what_the_readme_says_is_in_the_files():
    text = " ".join((DOCS.parent / "README.md").read_text().split())
    found = {entry["hypothesis"]: entry for entry in results("language")["comparisons"]}
    tokens, parameters, time = (found[f"v2 at equal {at}"] for at in ("tokens", "parameters", "wall time"))
    said = f"better than softmax by {-tokens['difference_mean']:.3f} bits a byte at equal tokens and by "
    assert f"{said}{-parameters['difference_mean']:.3f} at equal parameters" in text
    ends = f"{time['interval_low']:+.3f} to {time['interval_high']:+.3f}"
    assert f"is left: {time['difference_mean']:+.3f}, 95 % interval {ends}" in text
    assert f"keeps {-found['gated at equal wall time']['difference_mean']:.3f} even there" in text
    assert f"V1 is worse by {found['v1 at equal tokens']['difference_mean']:.3f}" in text
    decided = {"v2 at equal tokens", "v2 at equal parameters", "gated at equal wall time"}
    assert all(found[name]["outcome"] == "supported" for name in decided)
    needle = results("needle")
    last = {}
    for run in needle["runs"]:
        if run["condition"] == "plain":
            last.setdefault(run["variant"], []).append(run["retrieval"]["2048"]["rates"]["accuracy"]["share"])
    means = {name: sum(shares) / len(shares) for name, shares in last.items()}
    others = [mean for name, mean in means.items() if name != "logn"]
    assert f"log-n stays at {means['logn']:.2f}"[-3:] in text
    assert f"between {min(others):.2f} and {max(others):.2f}".replace("0.", ".") in text
    assert not [e for e in needle["comparisons"] if e["outcome"] in ("supported", "contradicted")]
