"""The gain's slope over parameters, from gains made by hand."""

from __future__ import annotations

import pytest

from diffattn.experiments.studies.scale_slope import gain_chart, gain_slope


def pairs(*gains, noise=0.001):
    """Sizes of 1,000, 10,000 and 100,000 parameters with two seeds each."""
    return [
        (10 ** (3 + n), {0: 2.0 - gain + noise, 1: 2.5 - gain - noise}, {0: 2.0, 1: 2.5})
        for n, gain in enumerate(gains)
    ]


@pytest.mark.parametrize(
    ("gains", "outcome", "words"),
    [
        ((0.1, 0.2, 0.3), "supported", "changes by +0.100"),
        ((0.3, 0.2, 0.1), "contradicted", "it shrinks with the model"),
        ((0.1, 0.3, 0.1), "not resolved", "whether it grows is not resolved below"),
    ],
)
def test_what_the_slope_says(gains, outcome, words):
    found = gain_slope("v2", pairs(*gains))
    assert found["outcome"] == outcome
    assert found["slope"] == pytest.approx((gains[2] - gains[0]) / 2, abs=1e-9)
    assert words in found["sentence"]
    assert (found["interval_low"] > 0, found["interval_high"] < 0) == (
        outcome == "supported",
        outcome == "contradicted",
    )


def test_the_chart_has_every_pair_and_the_line():
    found = gain_slope("v2", pairs(0.1, 0.2, 0.3))
    chart = gain_chart([found])
    assert [point[0] for point in chart["curves"][0]["points"]] == [1000, 1000, 10_000, 10_000, 100_000, 100_000]
    assert [point[1] for point in chart["curves"][0]["points"]][:2] == pytest.approx([0.099, 0.101])
    assert chart["curves"][0]["line"] == [[1000, pytest.approx(0.1)], [100_000, pytest.approx(0.3)]]


def test_a_diverged_run_is_said_and_makes_no_gain():
    broken = pairs(0.1, 0.2, 0.3)
    broken[1][1][0] = None
    found = gain_slope("v2", broken)
    assert len(found["points"]) == 5
    assert "without 1 of 6 pairs, of which a run diverged" in found["sentence"]


def test_too_few_for_an_interval_or_a_slope():
    few = gain_slope("v2", [(size, {0: ours[0]}, theirs) for size, ours, theirs in pairs(0.1, 0.2)])
    assert (few["outcome"], few["interval_low"]) == ("not measured", None)
    assert "too few runs for an interval" in few["sentence"]
    none = gain_slope("v2", pairs(0.1))
    assert (none["outcome"], none["sentence"]) == ("not measured", "Too few sizes ran through.")
    assert gain_chart([none]) is None
