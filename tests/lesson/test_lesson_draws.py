"""What is drawn agrees with the closed form where it holds, and the intervals are what they say."""

from __future__ import annotations

import math
import random
import statistics

import pytest
import scipy.stats

from diffattn.lesson.draws import draw, measure, sharpened, sharper
from diffattn.lesson.estimates import Estimate, Share, estimate, mean, ratio
from diffattn.planning.noise_model import NoiseModel

# One in 150,000 by chance: wide enough for all that is drawn here, and no wider.
ERRORS = 4.5


def close(found: Estimate, derived: float, model: NoiseModel) -> bool:
    """Within the interval, and the first term that the closed form leaves out."""
    return abs(found.value - derived) <= ERRORS * found.error + model.deviation * abs(derived) + 1e-12


CASES = [
    NoiseModel(length=1024, margin=4, strength=0.5, correlation=0.9),
    NoiseModel(length=4096, margin=6, second_margin=1, strength=1, second_strength=1.3, correlation=0.7),
    NoiseModel(length=1000, margin=8, strength=1, correlation=0.9),
    NoiseModel(length=3000, margin=5, strength=1, correlation=-0.5),
    NoiseModel(length=2000, margin=3, second_margin=4, strength=0.25, correlation=0),
]


@pytest.mark.parametrize("model", CASES)
@pytest.mark.parametrize("lam", [0.0, 0.5, 0.9, 1.2])
def test_measured_is_derived(model, lam):
    assert model.holds
    found = measure(model, draw(model, 40, seed=1), lam)
    assert close(found.match, model.match_weight(lam), model)
    assert close(found.noise_mass, model.noise_mass(lam), model)
    assert close(found.negative, model.negative_mass(lam), model)
    assert close(found.signal_to_noise, model.signal_to_noise(lam), model)
    assert found.row_sum.value == pytest.approx(1 - lam, abs=1e-12)


def test_a_wrong_formula_would_be_seen():
    """The test above has teeth: a correlation that is a tenth off lies far outside."""
    model = CASES[0]
    wrong = NoiseModel(length=1024, margin=4, strength=0.5, correlation=0.8)
    found = measure(model, draw(model, 40, seed=1), 0.9)
    assert not close(found.signal_to_noise, wrong.signal_to_noise(0.9), model)


def test_scores_have_the_strength_and_the_correlation_asked_for():
    model = NoiseModel(length=20_001, margin=0, strength=0.5, second_strength=1.5, correlation=0.6)
    (first, second), *_ = draw(model, 2, seed=2)
    logs = [[math.log(x) for x in row] for row in (first, second)]
    assert statistics.stdev(logs[0]) == pytest.approx(0.5, rel=0.03)
    assert statistics.stdev(logs[1]) == pytest.approx(1.5, rel=0.03)
    assert scipy.stats.pearsonr(*logs).statistic == pytest.approx(0.6, abs=0.03)


def test_draws_are_the_same_each_time():
    model = NoiseModel(length=10, margin=0, strength=1)
    assert draw(model, 2, seed=3) == draw(model, 2, seed=3)
    assert draw(model, 2, seed=3) != draw(model, 2, seed=4)


def test_sharpened_is_drawn_with_sharper_scores():
    model = NoiseModel(length=50, margin=1, strength=0.5, correlation=0.5)
    [(first, _)] = draw(model, 1, seed=5)
    [(sharp, _)] = sharpened(draw(model, 1, seed=5), 3)
    assert [math.log(x) for x in sharp] == pytest.approx([3 * math.log(x) for x in first])
    assert (sharper(model, 3).margin, sharper(model, 3).strength, sharper(model, 3).correlation) == (3, 1.5, 0.5)


def test_the_jackknife_of_a_mean_is_its_standard_error():
    rng = random.Random(6)
    values = [rng.gauss(0, 1) for _ in range(30)]
    found = mean(values)
    assert found.value == pytest.approx(statistics.mean(values))
    assert found.error == pytest.approx(statistics.stdev(values) / math.sqrt(30))


def test_a_ratio_of_means_is_no_mean_of_ratios():
    assert ratio([1.0, 3.0], [1.0, 1.0]).value == 2
    assert ratio([1.0, 1.0], [1.0, 3.0]).value == 0.5
    assert ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]).error == pytest.approx(0, abs=1e-12)
    assert estimate(math.sqrt, [1.0, 7.0]).value == 2


@pytest.mark.parametrize("freedom", [5, 7, 15, 23, 100])
def test_the_interval_is_students(freedom):
    wanted = scipy.stats.t.ppf(0.975, freedom)
    assert Estimate(0, 1, freedom + 1).half == pytest.approx(wanted, rel=0.003)


@pytest.mark.parametrize(("count", "draws"), [(0, 8), (8, 8), (3, 8), (700, 2000)])
def test_a_shares_interval_is_wilsons(count, draws):
    wanted = scipy.stats.binomtest(count, draws).proportion_ci(0.95, method="wilson")
    low, value, high = Share(count, draws).edges
    assert (low, high) == (pytest.approx(wanted.low, abs=1e-9), pytest.approx(wanted.high, abs=1e-9))
    assert value == count / draws


def test_the_interval_covers_as_often_as_it_says():
    rng, covered, rounds = random.Random(7), 0, 2000
    for _ in range(rounds):
        found = mean([rng.gauss(5, 2) for _ in range(8)])
        covered += abs(found.value - 5) <= found.half
    assert abs(covered / rounds - 0.95) < 4.5 * math.sqrt(0.95 * 0.05 / rounds)
