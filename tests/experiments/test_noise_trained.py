"""The laboratory on trained models: rows from the measure, words from the rows."""

from __future__ import annotations

import copy
import json
import random

import pytest

from diffattn.errors import UserError
from diffattn.experiments.noise.answers_trained import answers_trained
from diffattn.experiments.noise.trained import TrainedRequest, run_trained
from diffattn.experiments.single import train_one
from diffattn.report.noise_document import markdown
from diffattn.report.noise_page import render_noise
from diffattn.training import load_run
from tiny import WORDS, preset

LENGTHS = (18, 32)
SETTINGS = {"lengths": LENGTHS, "span": 4, "probes": 3, "depths": (0.0, 1.0)}


@pytest.fixture(scope="module")
def random_words(tmp_path_factory):
    """Text in which hardly a stretch stands twice."""
    folder, chance = tmp_path_factory.mktemp("random-words"), random.Random(0)
    for name, lines in (("train", 200), ("valid", 60), ("test", 60)):
        text = "".join(" ".join(chance.choices(WORDS, k=8)) + "\n" for _ in range(lines))
        (folder / f"{name}.txt").write_text(text)
    return folder


@pytest.fixture(scope="module", params=["softmax", "v1", "v2"])
def folder(request, random_words, tmp_path_factory):
    place = tmp_path_factory.mktemp(f"noise-{request.param}") / "run"
    train_one(preset(context=64, tokens=1280), request.param, str(random_words), place, progress=False)
    return place


def run(folder, **changes):
    request = TrainedRequest(run=folder, **{**SETTINGS, **changes})
    return run_trained(request, command="a command", progress=False)


def test_a_row_for_each_head_and_what_a_second_map_adds(folder):
    results = run(folder)
    config = load_run(folder).model.config
    rows = results["heads"]
    assert len(rows) == len(LENGTHS) * config.num_hidden_layers * config.num_output_heads
    assert {row["length"] for row in rows} == set(LENGTHS) == set(results["options"]["lengths"])
    differential = {"correlation", "lambda", "gain", "negative_mass", "second_margin"}
    assert all((differential <= row.keys()) is (config.maps == 2) for row in rows)
    assert all(-1 <= row.get("correlation", 0) <= 1 for row in rows)
    assert [gain["correlation"] for gain in rows[0]["possible_gains"]] == [0.0, 0.5, 0.9]
    questions = [entry["question"] for entry in results["answers"]]
    assert ("What does the subtraction remove?" in questions) is (config.maps == 2)
    assert ("What could a second map bring?" in questions) is (config.maps == 1)
    assert json.loads(json.dumps(results)) == results


def test_it_is_the_same_again_and_another_with_another_seed(folder):
    one, two, other = (run(folder, seed=seed) for seed in (0, 0, 1))
    assert one["heads"] == two["heads"] != other["heads"]


def test_page_and_markdown_show_the_heads(folder):
    results = run(folder)
    page = render_noise(results)
    assert "Does this model have the problem?" in page
    assert "Weight of the answer at 32 tokens" in page
    assert "## The heads" in markdown(results)


def test_any_hugging_face_model_is_measured_on_text_of_its_own(folder, random_words):
    request = TrainedRequest(model=str(folder / "model"), data=str(random_words), **SETTINGS)
    assert run_trained(request, command="", progress=False)["heads"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": (8,)}, "lengths must be 10 or more tokens"),
        ({"lengths": (4096,)}, "use at most"),
        ({"depths": (2.0,)}, "depths must be numbers from 0 to 1"),
        ({"probes": 0}, "probes must be at least 1"),
        ({"span": 100, "lengths": None}, "give a smaller --span"),
        ({"split": "dev"}, "there is no split"),
        ({"model": "also"}, "one of --run and --model"),
    ],
)
def test_what_cannot_be_measured(folder, changes, message):
    with pytest.raises(UserError, match=message):
        run(folder, **changes)


def head(length=128, **changes):
    row = {
        "length": length,
        "layer": 1,
        "head": 2,
        "finds_answer": True,
        "answer_mass": 0.4,
        "sink_mass": 0.1,
        "rest_mass": 0.5,
        "margin": 6.0,
        "margin_needed": 7.5,
        "strength": 2.0,
        "effective_strength": 1.0,
        "signal_to_noise": 100.0,
        "closed_signal_to_noise": 90.0,
        "closed_form_holds": True,
        "possible_gains": [{"correlation": 0.0, "gain": 1.2}, {"correlation": 0.9, "gain": 3.0}],
    }
    return row | changes


SIGNED = {
    "negative_mass": 0.1,
    "correlation": 0.8,
    "lambda": 0.6,
    "gain": 0.5,
    "first_rest_mass": 0.55,
    "second_margin": 5.0,
}


def made_up(**changes):
    entry = {"length": 128, "probes": 10, "copied": 0.9, "heads": 8, "finding": 3, "answer_mass": 0.4}
    entry |= {
        "effective_strength": 1.25,
        "rest_mass": 0.5,
        "margin": 6.0,
        "margin_needed": 7.5,
        "correlation": 0.8,
        "lambda": 0.6,
        "gain": 0.5,
    }
    names = ("answer_mass", "rest_mass", "sink_mass", "margin", "margin_needed", "effective_strength")
    followed = {name: head()[name] for name in names}
    return {
        "heads": [head()],
        "lengths": [entry],
        "followed": [
            {"length": 64, "heads": 3, **followed},
            {"length": 128, "heads": 3, **followed, "answer_mass": 0.2},
        ],
        **changes,
    }


def words(results):
    return {entry["question"]: " ".join(entry["answer"]) for entry in answers_trained(results)}


def test_a_margin_that_is_short_is_a_problem_and_one_beyond_is_not():
    results = made_up()
    said = words(results)["Does this model have the problem?"]
    assert "yes: the margin is 1.50 short of what leaves 10% to noise (6.00, needed 7.50)" in said
    assert "3 of 8 heads find the answer" in said
    assert "the weight of the answer from 40.0% to 20.0%" in said
    assert "layer 2 head 3" in said
    assert said.endswith("For diffattn plan: --margin 6.00 --strength 1.25")
    better = copy.deepcopy(results)
    better["lengths"][0]["margin"] = 8.0
    assert "hardly: the margin is 0.500 above" in words(better)["Does this model have the problem?"]
    lost = {**results, "lengths": [*results["lengths"], {**results["lengths"][0], "length": 512, "finding": 0}]}
    assert "At 512 tokens no head finds it any more." in words(lost)["Does this model have the problem?"]


def test_what_a_second_map_could_bring_is_said_by_correlation():
    said = words(made_up())["What could a second map bring?"]
    assert "1.20 at correlation 0 and 3.00 at correlation 0.9" in said
    little = [{"correlation": 0.0, "gain": 1.0}, {"correlation": 0.9, "gain": 1.02}]
    assert "That is little" in words(made_up(heads=[head(possible_gains=little)]))["What could a second map bring?"]


def test_where_no_head_finds_the_answer_nothing_is_claimed():
    results = made_up(heads=[head(finds_answer=False)])
    results["lengths"][0]["finding"] = 0
    found = words(results)
    assert "they cannot tell" in found["Does this model have the problem?"]
    assert "at most 90%" in found["Does this model have the problem?"]
    assert "no gain can be named" in found["What could a second map bring?"]
    signed = made_up(heads=[head(finds_answer=False, **SIGNED)])
    signed["lengths"][0]["finding"] = 0
    assert "median of 0.80" in words(signed)["What does the subtraction remove?"]


def test_what_the_subtraction_removes_and_when_it_hurts():
    found = words(made_up(heads=[head(**SIGNED), head(head=3, **{**SIGNED, "gain": 2.0})]))
    removed = found["What does the subtraction remove?"]
    for part in ("correlates by 0.80", "lambda is 0.60", "from 55.0% in the first map to 50.0%", "is 0.500 times"):
        assert part in removed
    assert "lowers the signal-to-noise of 1 of 2 heads" in found["When does it hurt?"]
    assert "In 1 of those that find the answer the second map holds it too" in found["When does it hurt?"]
    assert "holds it too" not in words(made_up(heads=[head(**{**SIGNED, "second_margin": 1.0})]))["When does it hurt?"]


def test_how_far_it_can_be_trusted():
    said = words(made_up(heads=[head(), head(closed_form_holds=False)]))["How far can this be trusted?"]
    assert "in 1 of 2 heads" in said
    assert "2.00 times the effective strength" in said
    assert "times the effective" not in words(made_up(heads=[head(strength=1.0)]))["How far can this be trusted?"]
