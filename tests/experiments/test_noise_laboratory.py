"""The laboratory as a whole: its rows, its words, its folder."""

from __future__ import annotations

import json
import re
from copy import deepcopy

import pytest

from diffattn.errors import UserError
from diffattn.experiments.noise import NoiseRequest, reserved, run_noise, write_results
from diffattn.experiments.noise.answers import answers
from diffattn.experiments.noise.sweeps import points
from diffattn.report.noise_rows import find, rows_of

SWEEPS = {"length", "margin", "strength", "independent", "correlation", "lambda", "second_margin", "failing"}


def small(**changes):
    setting = {"length": 2048, "lengths": (256, 2048, 8192), "draws": 6, "top_k": 16}
    return NoiseRequest(**{**setting, **changes})


@pytest.fixture(scope="module")
def results():
    return run_noise(small(), command="diffattn noise", progress=False)


def test_results_hold_everything_and_are_json(results):
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    wanted = {"schema", "kind", "created", "command", "versions", "machine", "options", "seed", "rows", "answers"}
    assert wanted <= results.keys()
    assert results["kind"] == "noise"
    assert results["options"]["lambda"] == 0.5
    assert {row["sweep"] for row in results["rows"]} == {*SWEEPS, "controls"}
    assert [row["x"] for row in rows_of(results, "length", "softmax")] == [256, 2048, 8192]
    assert {row["draws"] for row in results["rows"] if row["sweep"] != "failing"} == {6}
    assert {row["draws"] for row in rows_of(results, "failing")} == {24}


def test_the_same_seed_gives_the_same_rows(results):
    again = run_noise(small(), command="diffattn noise", progress=False)
    assert again["rows"] == results["rows"]
    assert again["answers"] == results["answers"]
    other = run_noise(small(seed=1), command="diffattn noise", progress=False)
    assert other["rows"] != results["rows"]


def test_settings_of_one_length_share_their_draws(results):
    at = {sweep: find(results, sweep, "softmax", x) for sweep, x in (("margin", 8.0), ("strength", 1.0))}
    assert at["margin"]["measures"] == at["strength"]["measures"]
    assert at["margin"]["measures"] == find(results, "length", "softmax", 2048)["measures"]


def test_every_number_asked_for_is_in_its_sweep():
    asked = small(margin=7.5, strength=0.6, correlation=0.42, second_margin=-1.25, lam=0.33, length=300)
    places = {(point.sweep, x) for point in points(asked) for x, _, _ in point.series}
    wanted = {("margin", 7.5), ("strength", 0.6), ("correlation", 0.42), ("second_margin", -1.25), ("lambda", 0.33)}
    assert wanted | {("length", 300)} <= places
    lambdas = [x for sweep, x in places if sweep == "lambda"]
    assert min(lambdas) == 0
    assert max(lambdas) > 1


def said(results, question):
    return " ".join(next(entry["answer"] for entry in results["answers"] if question in entry["question"]))


def test_words_hold_the_numbers(results):
    floor = said(results, "floor")
    noise = find(results, "length", "softmax", 2048)["measures"]["noise_mass"]
    assert "2,048 keys" in floor
    assert f"{100 * noise['value']:.2f}%" in floor
    assert f"{100 * noise['closed_form']:.2f}%" in floor
    assert "a margin of 10.32" in floor  # ln(9 * 2047) + 1/2
    removed = said(results, "remove")
    assert " = 1.465 times" in removed  # 1/erf(sqrt(1/2))
    assert f"{find(results, 'length', 'best', 2048)['measures']['gain']['value']:.3f}" in removed
    hurts = said(results, "hurt")
    assert "above 1.277; here it is 0.7071, below" in hurts
    assert "From a margin of 8 there, the best lambda is 0" in hurts
    cheaper = said(results, "cheaper")
    assert "log-n scaling (scores times 1.1)" in cheaper
    assert "Keeping the 16 largest" in cheaper
    assert "it says 2,981" in said(results, "trusted")


def test_words_change_with_the_numbers(results):
    other = run_noise(small(strength=2.0, lam=1.0, correlation=0.0), command="", progress=False)
    for ours, theirs in zip(results["answers"], other["answers"], strict=True):
        assert ours["question"] == theirs["question"]
        assert ours["answer"] != theirs["answer"]
    assert "above 0.9539; here it is 2.000, above that, so that it loses" in said(other, "hurt")
    changed = deepcopy(results)
    for row in rows_of(changed, "controls"):
        row["measures"]["gain"]["value"] = 0.5
    changed["answers"] = answers(changed)
    assert "no control does more" in said(changed, "cheaper")
    for row in changed["rows"]:
        row["measures"]["signal_to_noise"]["inside"] = False if row["holds"] else None
    changed["answers"] = answers(changed)
    assert "lies in 0 of " in said(changed, "trusted")


@pytest.mark.parametrize(
    "setting",
    [
        {"lengths": (2048,)},
        {"correlation": 1.0, "lam": 0.9},
        {"correlation": 1.0, "lam": 1.0, "second_margin": 8.0},
        {"correlation": -1.0},
        {"lam": 0.0},
        {"lam": 3.0, "second_margin": 20.0},
        {"margin": 100.0, "strength": 0.01},
        {"strength": 10.0, "margin": 0.1},
        {"length": 2, "lengths": (2,), "draws": 2},
    ],
)
def test_extreme_settings_have_answers_too(setting):
    found = run_noise(small(**{"draws": 2, **setting}), command="", progress=False)
    text = json.dumps(found["answers"])
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert len(found["answers"]) == 5


@pytest.mark.parametrize(
    ("setting", "option"),
    [
        ({"length": 1}, "--length"),
        ({"length": 2**23}, "--length"),
        ({"lengths": (4, 1)}, "--lengths"),
        ({"lengths": ()}, "--lengths"),
        ({"margin": 0.0}, "--margin"),
        ({"strength": 0.0}, "--strength"),
        ({"strength": float("nan")}, "--strength"),
        ({"correlation": 1.01}, "--correlation"),
        ({"second_margin": float("inf")}, "--second-margin"),
        ({"lam": -0.1}, "--lambda"),
        ({"lam": float("nan")}, "--lambda"),
        ({"draws": 1}, "--draws"),
        ({"seed": -1}, "--seed"),
        ({"base_length": 1}, "--base-length"),
        ({"top_k": 0}, "--top-k"),
        ({"gate": 1.5}, "--gate"),
    ],
)
def test_a_number_out_of_range_is_the_users_to_mend(setting, option):
    with pytest.raises(UserError, match=f"{option}: "):
        small(**setting)


def stopped_half_way(place):
    with reserved(place) as folder:
        (folder / "half").write_text("")
        raise KeyboardInterrupt


def test_the_folder_is_whole_or_not_at_all(results, tmp_path):
    place = tmp_path / "new" / "noise"
    with pytest.raises(KeyboardInterrupt):
        stopped_half_way(place)
    assert list(place.parent.iterdir()) == []
    with reserved(place) as folder:
        write_results(results, folder)
        assert not place.exists()
    names = {path.name for path in place.iterdir()}
    assert {"results.json", "tables.md", "report.html", "floor.png", "floor.svg", "controls.png"} <= names
    assert [path.name for path in place.parent.iterdir()] == ["noise"]
    assert json.loads((place / "results.json").read_text()) == results


def test_an_earlier_result_is_replaced_and_anything_else_refused(results, tmp_path):
    place = tmp_path / "noise"
    place.mkdir()
    with reserved(place) as folder:
        for name in ("results.json", "floor.png", "report.html"):
            (folder / name).write_text(json.dumps(results))
    with pytest.raises(KeyboardInterrupt):
        stopped_half_way(place)
    assert sorted(path.name for path in place.iterdir()) == ["floor.png", "report.html", "results.json"]
    with reserved(place) as folder:
        (folder / "results.json").write_text('{"kind": "noise"}')
    assert [path.name for path in place.iterdir()] == ["results.json"]
    (place / "mine.txt").write_text("kept")
    with pytest.raises(UserError, match=r"mine\.txt"), reserved(place):
        pass
    (place / "results.json").write_text('{"kind": "compare"}')
    with pytest.raises(UserError, match="give another"), reserved(place):
        pass
    with pytest.raises(UserError, match="is a file"), reserved(place / "mine.txt"):
        pass
    assert (place / "mine.txt").read_text() == "kept"
