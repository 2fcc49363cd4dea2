"""The paired statistics against values worked by hand and against simulated experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from diffattn.experiments.statistics import detectable_difference, paired_difference


def test_three_pairs_by_hand() -> None:
    # Differences -1, -2, -3: mean -2, deviation 1; the 97.5 % point of t with 2 degrees of freedom is 4.302653.
    found = paired_difference([9.0, 18.0, 27.0], [10.0, 20.0, 30.0])
    half = 4.302653 / math.sqrt(3)
    assert found["difference_mean"] == pytest.approx(-2)
    assert found["interval_low"] == pytest.approx(-2 - half, abs=1e-6)
    assert found["interval_high"] == pytest.approx(-2 + half, abs=1e-6)
    assert (found["seeds"], found["confidence"]) == (3, 0.95)


def test_interval_agrees_with_scipys_paired_test() -> None:
    generator = np.random.default_rng(1)
    values, baseline = generator.normal(size=7), generator.normal(size=7)
    found = paired_difference(values.tolist(), baseline.tolist(), confidence=0.9)
    expected = stats.ttest_rel(values, baseline).confidence_interval(0.9)
    assert (found["interval_low"], found["interval_high"]) == pytest.approx((expected.low, expected.high))


def test_one_pair_has_no_interval() -> None:
    found = paired_difference([1.0], [1.5])
    assert found["difference_mean"] == -0.5
    assert found["interval_low"] is found["interval_high"] is found["detectable"] is None


def test_equal_differences_leave_no_width() -> None:
    found = paired_difference([1.0, 2.0], [0.5, 1.5])
    assert (found["interval_low"], found["interval_high"], found["detectable"]) == (0.5, 0.5, 0.0)


@pytest.mark.parametrize(("pairs", "power"), [(2, 0.8), (3, 0.8), (5, 0.8), (5, 0.5), (20, 0.9)])
def test_detectable_difference_is_found_as_often_as_it_says(pairs: int, power: float) -> None:
    deviation, experiments = 0.3, 40_000
    true = detectable_difference(deviation, pairs, power=power)
    generator = np.random.default_rng(pairs)
    differences = generator.normal(true, deviation, size=(experiments, pairs))
    t = differences.mean(axis=1) / (differences.std(axis=1, ddof=1) / math.sqrt(pairs))
    found = np.mean(np.abs(t) > stats.t.ppf(0.975, pairs - 1))
    assert found == pytest.approx(power, abs=4 * math.sqrt(power * (1 - power) / experiments))


def test_detectable_difference_of_many_pairs_nears_the_normal_formula() -> None:
    expected = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * 2.0 / math.sqrt(100_000)
    assert detectable_difference(2.0, 100_000) == pytest.approx(expected, rel=1e-4)


def test_detectable_scales_with_the_spread_and_shrinks_with_seeds() -> None:
    sizes = [detectable_difference(1.0, pairs) for pairs in range(2, 12)]
    assert sizes == sorted(sizes, reverse=True)
    assert detectable_difference(0.01, 4) == pytest.approx(0.01 * sizes[2])


def test_interval_covers_zero_as_often_as_it_says() -> None:
    generator = np.random.default_rng(5)
    covered = 0
    for sample in generator.normal(size=(500, 2, 3)):
        found = paired_difference(*sample.tolist(), power=0.8)
        covered += found["interval_low"] <= 0 <= found["interval_high"]
    assert covered / 500 == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 500))


@pytest.mark.parametrize(
    ("values", "baseline", "words"),
    [
        ([], [], "got 0 and 0"),
        ([1.0], [1.0, 2.0], "got 1 and 2"),
        ([1.0, math.nan], [1.0, 2.0], "finite"),
        ([1.0, 2.0], [1.0, math.inf], "finite"),
    ],
)
def test_refuses_what_is_not_pairs(values: list[float], baseline: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        paired_difference(values, baseline)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"deviation": 1.0, "pairs": 1}, "pairs"),
        ({"deviation": -1.0, "pairs": 3}, "deviation"),
        ({"deviation": 1.0, "pairs": 3, "power": 0.04}, "power"),
        ({"deviation": 1.0, "pairs": 3, "power": 1.0}, "power"),
        ({"deviation": 1.0, "pairs": 3, "confidence": 1.0}, "confidence"),
    ],
)
def test_refuses_settings_out_of_range(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        detectable_difference(**arguments)  # type: ignore[arg-type]
