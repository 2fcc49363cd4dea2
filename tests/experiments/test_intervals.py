"""The bootstrap over parts of a text, and the slope's interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from diffattn.experiments.intervals import bootstrap_over_parts, slope


def test_the_mean_is_that_of_all_units_and_seeds():
    # Sums 3, 5, 10 over seeds' means; 18 units of text in all.
    found = bootstrap_over_parts([[2.0, 4.0, 9.0], [4.0, 6.0, 11.0]], [3, 5, 10])
    assert found["difference_mean"] == 1.0
    assert (found["interval_low"], found["interval_high"]) == (1.0, 1.0)
    assert (found["parts"], found["confidence"]) == (3, 0.95)


def test_two_parts_take_their_ends():
    # Half of all draws have a part twice: the 2.5% and 97.5% points are the parts' own differences.
    found = bootstrap_over_parts([[1.0, -6.0]], [2, 3])
    assert (found["interval_low"], found["interval_high"]) == (-2.0, 0.5)
    assert found["difference_mean"] == -1.0


def test_one_part_has_no_interval():
    found = bootstrap_over_parts([[6.0]], [3])
    assert (found["difference_mean"], found["interval_low"], found["interval_high"]) == (2.0, None, None)


def test_it_covers_the_truth_about_as_often_as_it_says():
    generator, sizes, covered = np.random.default_rng(3), [16] * 29 + [7], 0
    for _ in range(60):
        differences = generator.normal(0.2 * np.array(sizes), np.sqrt(sizes))
        found = bootstrap_over_parts([differences.tolist()], sizes)
        covered += found["interval_low"] <= 0.2 <= found["interval_high"]
    assert 50 <= covered <= 60


def test_the_same_seed_draws_the_same():
    differences = [np.random.default_rng(0).normal(size=40).tolist()]
    assert bootstrap_over_parts(differences, [1] * 40) == bootstrap_over_parts(differences, [1] * 40)
    assert bootstrap_over_parts(differences, [1] * 40, seed=1) != bootstrap_over_parts(differences, [1] * 40)


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_the_slope_by_the_textbook(confidence):
    x, y = [1.0, 2.0, 4.0, 7.0, 7.0], [2.0, 2.5, 2.0, 5.0, 4.0]
    mean_x, mean_y = sum(x) / 5, sum(y) / 5
    spread = sum((a - mean_x) ** 2 for a in x)
    rise = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    start = mean_y - rise * mean_x
    residual = sum((b - start - rise * a) ** 2 for a, b in zip(x, y, strict=True)) / 3
    half = stats.t.ppf((1 + confidence) / 2, 3) * math.sqrt(residual / spread)
    found = slope(x, y, confidence)
    assert (found["slope"], found["intercept"]) == pytest.approx((rise, start))
    assert (found["interval_low"], found["interval_high"]) == pytest.approx((rise - half, rise + half))
    assert found["p"] == pytest.approx(2 * stats.t.sf(abs(rise) / math.sqrt(residual / spread), 3))
    assert found["points"] == 5


def test_the_slopes_interval_covers_the_truth():
    generator, covered = np.random.default_rng(1), 0
    x = [0.0, 1.0, 2.0] * 3
    for _ in range(300):
        y = [0.5 * a + noise for a, noise in zip(x, generator.normal(size=9), strict=True)]
        found = slope(x, y)
        covered += found["interval_low"] <= 0.5 <= found["interval_high"]
    assert covered / 300 == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 300))


def test_two_points_have_a_slope_without_an_interval():
    found = slope([1.0, 3.0], [1.0, 5.0])
    assert (found["slope"], found["intercept"]) == (2.0, -1.0)
    assert found["interval_low"] is found["interval_high"] is found["p"] is None


def test_equal_x_have_no_slope():
    with pytest.raises(ValueError, match="two values or more"):
        slope([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])
