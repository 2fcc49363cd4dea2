"""An experiment's page and folder: order, what it says of the hypotheses, dashes, holes, whole or not at all."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from experiment_example import make_experiment

from diffattn.errors import UserError
from diffattn.report import experiment_folder
from diffattn.report.experiment_folder import write_experiment
from diffattn.report.experiment_page import render_experiment
from diffattn.report.wording import duration
from pages import Page, assert_labelled, assert_self_contained

Results = dict[str, Any]
EVIL = '<script>alert(1)</script><img src=http://evil.example/x onerror="y"> & \' {{ 7*7 }} $x$'
CHARTS = ("accuracy-over-length", "depth-by-length", "loss", "maps")


@pytest.fixture(scope="module")
def page_text() -> str:
    return render_experiment(make_experiment())


@pytest.fixture
def results() -> Results:
    return make_experiment()


@pytest.fixture
def without_charts(results: Results) -> Results:
    return results | {"charts": results["charts"][-1:]}


def read(results: Results) -> str:
    return Page(render_experiment(results)).text


def test_the_page_is_well_formed_and_self_contained(page_text: str) -> None:
    assert_labelled(page_text)
    assert_self_contained(page_text)
    page = Page(page_text)
    labels = [a["aria-label"] or "" for _, a in page.tags if a.get("role") == "img"]
    assert len(labels) == len(page.attributes("figure")) == 4
    assert all(len(label.split()) > 10 for label in labels)
    assert all(a.get("aria-hidden") == "true" for a in page.attributes("svg"))


def test_order_is_verdict_hypotheses_pictures_numbers_failures_limits_measured(
    results: Results, page_text: str
) -> None:
    page = Page(page_text)
    parts = [a.get("id") or tag for tag, a in page.tags if tag in ("h1", "section")]
    assert parts == ["h1", "verdict", "hypotheses", "curves", "tables", "failures", "limits", "measured"]
    found = results["verdict"][0], results["failures"][0], results["limits"][0], results["command"]
    places = [page.text.index(sentence) for sentence in found]
    assert places == sorted(places)
    assert all(sentence in page.text for sentence in results["verdict"])


def test_each_hypothesis_stands_with_its_outcome(results: Results, page_text: str) -> None:
    text = Page(page_text).text
    signs = ("✓", "✗", "?", "\N{EN DASH}")
    for hypothesis, outcome, sign in zip(results["protocol"]["hypotheses"], results["outcomes"], signs, strict=True):
        said = f"{hypothesis['name']}. {hypothesis['text']} {sign} {outcome['outcome']} {outcome['sentence']}"
        assert said in text
    assert "Written 2026-01-02T01:51:00Z, before the run." in text
    assert "Stopping rule Three seeds, 400 steps each" in text


def test_outcomes_and_hypotheses_that_lack_each_other_are_said_to(without_charts: Results) -> None:
    without_charts["outcomes"] = [{"hypothesis": "afterthought", "outcome": "supported", "sentence": "Found it."}]
    text = read(without_charts)
    assert "afterthought. Not among those written beforehand. ✓ supported Found it." in text
    assert text.count("not measured") == 4


@pytest.mark.parametrize(
    ("created", "said"),
    [
        ("2026-01-02T03:03:05Z", "Written 2026-01-02T01:51:00Z, before the run."),
        ("2026-01-02T03:03:03Z", "Written 2026-01-02T01:51:00Z."),
        ("2026-01-02T01:51:00Z", "Written 2026-01-02T01:51:00Z."),
        ("2026-01-02T02:50:59+01:00", "Written 2026-01-02T01:51:00Z, after the run."),
        ("2026-01-02T01:50:59", "Written 2026-01-02T01:51:00Z, after the run."),
        ("some day", "Written 2026-01-02T01:51:00Z."),
        (None, "Written 2026-01-02T01:51:00Z."),
    ],
)
def test_written_before_is_said_only_where_the_times_show_it(without_charts: Results, created: Any, said: str) -> None:
    text = read(without_charts | {"created": created})
    assert said in text
    assert ("before the run." in text) == said.endswith("before the run.")


def test_tables_show_every_cell_and_long_ones_scroll(page_text: str) -> None:
    page = Page(page_text)
    for row in ("V1 without norm 406,000 \N{EN DASH} 0.001 \N{EN DASH} 1 of 3", "V1 without norm 256 2 \N{EN DASH}"):
        assert row in page.text
    classes = [a.get("class") for a in page.attributes("div") if (a.get("class") or "").startswith("scroll")]
    assert classes == ["scroll long", "scroll"]
    assert page.text.count("softmax, log-n scaled 2,048") == 3


def test_uneven_rows_and_bare_numbers_are_shown(without_charts: Results) -> None:
    rows = [["a", 1234.5678, 7], ["b"], ["c", math.inf, None, "more"]]
    text = read(without_charts | {"tables": [{"name": "uneven", "head": ["x", "y"], "rows": rows}]})
    assert (
        "uneven x y a 1,235 7 \N{EN DASH} b \N{EN DASH} \N{EN DASH} \N{EN DASH} c \N{EN DASH} \N{EN DASH} more" in text
    )


def test_words_stand_left_and_numbers_right(without_charts: Results) -> None:
    rows = [["a", "not resolved", "1.5", None], ["b", None, "none", None], ["c", "equal", "-0.2 to +0.1", None]]
    page = Page(render_experiment(without_charts | {"tables": [{"head": ["A", "B", "C", "D"], "rows": rows}]}))
    assert [a.get("class") for a in page.attributes("td")] == ["text", None, None] * 3
    assert [a.get("class") for a in page.attributes("th") if a.get("scope") == "col"] == ["text", "text", None, None]


def test_facts_hold_time_settings_and_machine(page_text: str) -> None:
    text = Page(page_text).text
    for shown in (
        *("time taken 1 h 12 min", "seeds 0, 1, 2", "learning rates 0.001, 0.003", "best softmax 0.003, V2 0.001"),
        *("torch 2.13.0", "memory bytes 8.00 GiB", "preset quick", "diffattn experiment needle --seeds 3"),
    ):
        assert shown in text


def test_times_as_a_person_says_them() -> None:
    said = [duration(seconds) for seconds in (4.25, 0.0123, 59.0, 61.4, 3599.0, 3600.0, 90_000.0)]
    assert said == ["4.25 s", "0.0123 s", "59 s", "1 min 1 s", "59 min 59 s", "1 h 0 min", "25 h 0 min"]


def _strings(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _strings(entry) for key, entry in tree.items()}
    if isinstance(tree, list):
        return [_strings(entry) for entry in tree]
    return EVIL if isinstance(tree, str) else tree


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")
def test_every_string_is_escaped(without_charts: Results) -> None:
    kind = without_charts["charts"][0]["kind"]
    evil = _strings(without_charts)
    evil["charts"][0]["kind"] = kind
    text = render_experiment(evil)
    assert {tag for tag, _ in Page(text).tags} & {"script", "img"} == set()
    assert text.count("&lt;script&gt;") > 50


def _without(*keys: str) -> Callable[[Results], None]:
    def change(results: Results) -> None:
        for key in keys:
            del results[key]

    return change


def _nulls(results: Results) -> None:
    results.update(dict.fromkeys(results))


def _nan(results: Results) -> None:
    results["seconds"] = math.nan
    results["settings"] |= {"rate": math.nan, "nested": {"a": [math.inf, None]}}
    for panel in results["charts"][0]["panels"]:
        panel["values"] = [math.nan] * 4


@pytest.mark.parametrize(
    "change",
    [
        _without("protocol", "outcomes", "verdict"),
        _without("charts", "tables", "failures", "limits"),
        _without("settings", "seconds", "experiment", "title", "command", "corpus"),
        _nulls,
        _nan,
        dict.clear,
    ],
)
def test_holes_do_not_break_it(without_charts: Results, change: Callable[[Results], None]) -> None:
    change(without_charts)
    page = render_experiment(without_charts)
    assert_labelled(page)
    assert not re.search(r"\bnan\b|\binf\b|\bNone\b", re.sub(r"NaN", "", Page(page).text))


def test_the_folder_holds_page_and_pictures_beside_what_is_there(
    results: Results, page_text: str, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "run"
    (folder / "charts").mkdir(parents=True)
    for kept in (folder / "results.json", folder / "charts" / "gone.png"):
        kept.write_text("old")
    write_experiment(json.loads(json.dumps(results)), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["charts", "report.html", "results.json"]
    assert (folder / "report.html").read_text(encoding="utf-8") == page_text
    names = sorted(f"{name}.{kind}" for name in CHARTS for kind in ("png", "svg"))
    assert sorted(path.name for path in (folder / "charts").iterdir()) == names


def test_what_fails_leaves_the_earlier_page_and_pictures(
    without_charts: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_experiment(without_charts, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert len(before) == 3

    def broken(*_: Any) -> None:
        raise UserError("no room")

    monkeypatch.setattr(experiment_folder, "put_folder", broken)
    with pytest.raises(UserError, match="no room"):
        write_experiment(without_charts | {"title": "another"}, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["charts", "report.html"]


def test_a_folder_that_cannot_be_written_is_the_users_to_mend(without_charts: Results, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UserError, match="cannot be written"):
        write_experiment(without_charts, tmp_path / "file")
