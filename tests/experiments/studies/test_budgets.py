"""Values at equal budgets, on curves whose value at any number of tokens is known."""

from __future__ import annotations

import pytest

from diffattn.experiments.studies.budgets import curve_at, final_bits, four_ways
from planted_studies import log_linear, text_run

OURS, THEIRS = log_linear(9.0, 0.5), log_linear(9.5, 0.25)


def runs(flops=100.0, variant="v2", **changes):
    ours = [text_run(variant, seed, test=1.0 + seed, curve=OURS, flops=flops, **changes) for seed in (0, 1)]
    theirs = [text_run("softmax", seed, test=2.0, curve=THEIRS, flops=100.0) for seed in (0, 1)]
    return [*ours, *theirs, *(text_run("wide", seed, test=3.0) for seed in (0, 1))]


def ways(flops=100.0, speeds=None, variant="v2", **changes):
    speeds = {"softmax": 1.0, variant: 1.0} if speeds is None else speeds
    return {
        one.at: (one, ours, theirs) for one, ours, theirs in four_ways(variant, runs(flops, variant, **changes), speeds)
    }


def test_equal_tokens_and_parameters_take_the_test_text():
    found = ways()
    one, ours, theirs = found["equal tokens"]
    assert (one.baseline, one.measure, ours, theirs) == ("softmax", "test loss", {0: 1.0, 1: 2.0}, {0: 2.0, 1: 2.0})
    one, _, theirs = found["equal parameters"]
    assert (one.baseline, theirs) == ("wide", {0: 3.0, 1: 3.0})
    assert ways(variant="v1")["equal parameters"][0].baseline == "softmax"


@pytest.mark.parametrize(("ratio", "our_tokens", "their_tokens"), [(1.6, 1024 / 1.6, 1024), (0.7, 1024, 0.7 * 1024)])
@pytest.mark.parametrize("at", ["equal training FLOPs", "equal wall time"])
def test_the_dearer_is_read_earlier(at, ratio, our_tokens, their_tokens):
    found = ways(flops=100 * ratio) if "FLOPs" in at else ways(speeds={"softmax": 1.0, "v2": ratio})
    one, ours, theirs = found[at]
    assert (one.baseline, one.measure) == ("softmax", "validation loss")
    assert list(ours.values()) == pytest.approx([OURS(our_tokens)] * 2)
    assert list(theirs.values()) == pytest.approx([THEIRS(their_tokens)] * 2)


def test_equal_costs_are_read_at_the_end():
    _, ours, theirs = ways()["equal wall time"]
    assert (ours[0], theirs[0]) == pytest.approx((OURS(1024), THEIRS(1024)))


@pytest.mark.parametrize("speeds", [{}, {"softmax": 1.0}, {"v2": 1.0}, {"softmax": 1.0, "v2": float("nan")}])
def test_without_a_speed_there_is_no_equal_time(speeds):
    _, ours, theirs = ways(speeds=speeds)["equal wall time"]
    assert set(ours.values()) | set(theirs.values()) == {None}


def test_a_diverged_run_has_no_value_anywhere():
    for _, ours, theirs in ways(diverged=7).values():
        assert set(ours.values()) == {None}
        assert None not in theirs.values()
    broken = text_run("v2", curve=lambda tokens: None if tokens > 500 else 2.0)
    assert curve_at(broken, 100) is None
    assert final_bits(text_run("v2", test=float("inf"))) is None


def test_a_variant_without_runs_has_no_values():
    assert [(ours, theirs) for _, ours, theirs in four_ways("v2", [], {})] == [({}, {})] * 4
