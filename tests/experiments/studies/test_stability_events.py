"""Events of runs made by hand, and what each hypothesis makes of them."""

from __future__ import annotations

import pytest

from diffattn.experiments.studies.stability_events import (
    count_spikes,
    describe_run,
    highest_sound_rate,
    is_sound,
    stability_outcomes,
)
from diffattn.experiments.studies.stability_report import stability_tables
from planted_studies import stability_run

NAN = float("nan")
RATES = (1e-3, 1e-2, 1e-1)
SPIKE, HIDDEN = (3.0, 2.0, 2.6), [[0.2, 12.0]] * 2


@pytest.mark.parametrize(
    ("losses", "spikes"),
    [
        ([], 0),
        ([3.0, 2.0, 1.0], 0),
        ([3.0, 2.0, 2.5], 0),
        ([3.0, 2.0, 2.51], 1),
        ([3.0, 2.0, 2.6, 2.7, 2.6], 1),
        ([3.0, 2.0, 2.6, 2.25, 2.6], 2),
        ([3.0, 2.0, 2.6, 2.26, 2.6], 1),
        ([3.0, 2.0, 2.6, 1.0, 1.6, 1.2, 1.51], 3),
        ([3.0, None, 2.0, NAN, 2.6, float("inf")], 1),
        ([None, None], 0),
        ([NAN, 5.0], 0),
    ],
)
def test_spikes(losses, spikes):
    assert count_spikes(losses) == spikes


def events(*arguments, **changes):
    run = stability_run(*arguments, **changes)
    return {**run, "events": describe_run(run)}


def test_a_run_described():
    losses = [9.0, *[2.0] * 8, 1.0, 3.0]
    found = events("v1", losses=losses, lambdas=[[0.1, -0.3]] * 9 + [[2.0, 11.0]] * 2, rms=[0.5, None, 4.0])["events"]
    assert found == {
        "diverged": False,
        "spikes": 1,
        "largest_lambda": 11.0,
        "large_lambda_at": 50,
        "largest_context_rms": 4.0,
        "final_loss": pytest.approx(2.0),
    }


def test_a_diverged_run_described():
    found = events("v1", losses=[2.0, None], lambdas=[[0.1], [None]], diverged=10)["events"]
    assert (found["diverged"], found["final_loss"], found["largest_lambda"]) == (True, None, 0.1)
    assert found["large_lambda_at"] == 10
    assert not is_sound({"events": found})


def test_the_highest_rate_below_the_first_event():
    runs = [events("v1", rate, losses=SPIKE if rate == 1e-2 else (3.0, 2.0)) for rate in RATES]
    assert highest_sound_rate(runs, "v1", 1.0, RATES[::-1]) == 1e-3
    assert highest_sound_rate(runs, "v1", 1.0, (1e-2,)) is None
    assert highest_sound_rate(runs, "v1", 0.0, RATES) is None
    assert highest_sound_rate([*runs, events("v1", 1e-3, seed=1, diverged=5)], "v1", 1.0, RATES) is None
    assert highest_sound_rate([events("v1", rate, clip=0.0) for rate in RATES], "v1", 0.0, RATES) == 1e-1


def outcomes(*runs):
    return {one["hypothesis"]: (one["outcome"], one["sentence"]) for one in stability_outcomes(runs, RATES)}


def test_hypotheses_before_any_run():
    stated = stability_outcomes([], RATES)
    assert [set(one) for one in stated] == [{"name", "text"}] * 4
    assert [one["name"] for one in stated] == list(outcomes(events("softmax")))


def test_what_is_not_among_the_variants_is_not_measured():
    assert {outcome for outcome, _ in outcomes(events("softmax")).values()} == {"not measured"}


@pytest.mark.parametrize(
    ("changes", "outcome", "words"),
    [
        ({"lambdas": HIDDEN}, "supported", "without a spike in the loss at 0.1 without clipping"),
        ({"lambdas": [[0.5], [10.0]]}, "contradicted", "its largest lambda was 10."),
        ({"lambdas": [*HIDDEN, [1.0]], "losses": SPIKE}, "contradicted", "its largest lambda was 12."),
        ({"lambdas": [[0.5], [None]], "losses": [2.0, None], "diverged": 10}, "contradicted", "lambda was 0.5."),
    ],
)
def test_the_norm_hides(changes, outcome, words):
    found = outcomes(events("v1", 1e-1, clip=0.0, **changes))["norm hides"]
    assert found[0] == outcome
    assert words in found[1]


@pytest.mark.parametrize(
    ("with_norm", "without", "outcome"),
    [
        (1e-1, 1e-2, "supported"),
        (None, 1e-1, "supported"),
        (1e-2, 1e-1, "contradicted"),
        (1e-2, None, "contradicted"),
        (1e-2, 1e-2, "not resolved"),
        (None, None, "not resolved"),
    ],
)
def test_the_norm_is_needed(with_norm, without, outcome):
    runs = [
        events(name, rate, losses=SPIKE if rate == breaks else (3.0, 2.0))
        for name, breaks in (("v1", with_norm), ("v1-no-norm", without))
        for rate in RATES
    ]
    found = outcomes(*runs)["norm needed"]
    assert found[0] == outcome
    if with_norm is None:
        assert "V1 has an event at no rate tried" in found[1]


def test_as_sound_as_softmax():
    def both(ours, theirs=()):
        pairs = [("v2", ours), ("softmax", theirs)]
        return outcomes(*(events(n, r, losses=SPIKE if r in bad else (3.0, 2.0)) for n, bad in pairs for r in RATES))

    assert both(())["V2 stable"] == ("supported", "V2 had no event in any of the 3 runs in which softmax had none.")
    found = both((1e-2,))["V2 stable"]
    assert (found[0], "0.01 with clipping" in found[1]) == ("contradicted", True)
    assert both((1e-2,), (1e-2,))["V2 stable"][0] == "supported"
    assert both((), RATES)["V2 stable"] == ("not resolved", "Softmax itself had an event everywhere.")
    assert both(())["gate stable"][0] == "not measured"


def test_the_table_of_events():
    about = {"parameters": 10, "flops_per_token": 10, "tokens": 10, "seconds": 1.0}
    runs = [
        events("v1", 1e-3),
        events("v1", 1e-2, losses=[3.0, 2.0, 2.6, 2.0, 2.6], lambdas=[[12.5]] * 5),
        events("v1", 1e-1, losses=[2.0, None], lambdas=[[0.5], [None]], diverged=10),
    ]
    results = {"variants": ["v1"], "rates": list(RATES), "clips": [1.0]}
    tables = {table["name"]: table for table in stability_tables([{**run, **about} for run in runs], results)}
    assert tables["events-clip1"]["rows"] == [
        ["V1", "·", "2 spikes, lambda 12.5", "diverged 1 of 1, lambda not finite"]
    ]
    assert tables["loss-clip1"]["rows"] == [["V1", "2.50", "2.44", "diverged"]]
