"""What the laboratory measures: against NumPy that shares no code with it, against the closed form, and itself."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from diffattn.experiments.noise import draws as drawing
from diffattn.experiments.noise.draws import attend, keys_of, measure, standard_scores, subtracted
from diffattn.experiments.noise.estimate import jackknife
from diffattn.experiments.noise.quantities import QUANTITIES, closed_form, describe
from diffattn.planning.noise_model import NoiseModel

LOSING = {1.0: 0.954, 0.8: 1.070, 0.5: 1.277}


def drawn(model, *lambdas, draws=32, seed=0):
    """The measures of each lambda on the same draws."""
    [[softmax, *others]] = measure([(model, subtracted([0.0, *lambdas]))], draws, seed)
    found = [
        describe(sums, softmax, model.length - 1, closed_form(model, lam))
        for sums, lam in zip(others, lambdas, strict=True)
    ]
    return found[0] if len(found) == 1 else found


def softmax(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def oracle(model, lam, draws, seed):
    """Softmax, subtraction and every measure, one draw and one plain formula at a time."""
    standard = np.concatenate([part.numpy() for part in standard_scores(model.length, draws, seed)])
    rows = []
    for first, own in standard:
        second = model.correlation * first + np.sqrt(1 - model.correlation**2) * own
        a1 = softmax(np.append(first * model.strength, model.margin))
        a2 = softmax(np.append(second * model.s2, model.second_margin))
        signed = a1 - lam * a2
        noise = signed[:-1]
        rows.append((signed[-1], np.abs(noise).mean(), (noise**2).sum(), -noise[noise < 0].sum(), signed.sum()))
        rows[-1] += (a1[-1], a1[:-1].mean(), (a1[:-1] ** 2).sum())
    match, mean, squares, negative, total, match1, mean1, squares1 = np.mean(rows, axis=0)
    to_noise, output = abs(match) / mean, abs(match) / math.sqrt(squares)
    return {
        "match_weight": match,
        "noise_mass": mean * (model.length - 1),
        "negative_mass": negative,
        "row_sum": total,
        "signal_to_noise": to_noise,
        "output_signal_to_noise": output,
        "gain": to_noise / (match1 / mean1),
        "output_gain": output / (match1 / math.sqrt(squares1)),
    }


@pytest.mark.parametrize(
    ("model", "lam"),
    [
        (NoiseModel(length=2, margin=1.0, strength=0.5), 0.3),
        (NoiseModel(length=301, margin=4.0, strength=0.7, second_margin=1.5, correlation=0.6), 0.8),
        (NoiseModel(length=999, margin=-1.0, strength=2.0, second_strength=1.1, correlation=-0.9), 1.4),
        (NoiseModel(length=500, margin=6.0, strength=1.0, correlation=1.0), 0.0),
    ],
)
def test_every_measure_is_the_oracles(model, lam):
    found = drawn(model, lam, draws=7, seed=5)
    expected = oracle(model, lam, 7, 5)
    assert found.keys() == expected.keys() == QUANTITIES.keys()
    for name, number in expected.items():
        assert found[name]["value"] == pytest.approx(number, rel=1e-9, abs=1e-12), name


def test_the_subtraction_is_the_operators():
    model = NoiseModel(length=40, margin=2.0, strength=1.0, correlation=0.3)
    keys = keys_of(model, next(standard_scores(40, 3, 1)))
    [ours] = subtracted([0.7])(keys)
    np.testing.assert_allclose(ours, attend(keys, 0.7).signed[:, 0, 0], rtol=0, atol=1e-15)


def test_draws_do_not_depend_on_how_they_are_split(monkeypatch):
    model = NoiseModel(length=100, margin=3.0, strength=1.0, correlation=0.5)
    [[whole]] = measure([(model, subtracted([0.5]))], 10, 3)
    monkeypatch.setattr(drawing, "_HELD", 250)
    assert [len(part) for part in standard_scores(100, 10, 3)] == [2] * 5
    [[split]] = measure([(model, subtracted([0.5]))], 10, 3)
    np.testing.assert_allclose(split, whole, rtol=1e-12)


def test_the_seed_decides_the_draws():
    model = NoiseModel(length=64, margin=3.0, strength=1.0)
    [[first]], [[again]], [[other]] = (measure([(model, subtracted([0.5]))], 4, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).all()


def test_drawn_noise_has_its_strengths_and_correlation():
    model = NoiseModel(length=20_001, margin=3.0, strength=0.5, second_strength=1.5, correlation=0.8)
    keys = keys_of(model, next(standard_scores(model.length, 1, 0)))[0, 0].numpy()
    assert keys[0].tolist() == [3.0, 0.0]
    deviations = keys[1:].std(axis=0)
    np.testing.assert_allclose(deviations, [0.5, 1.5], rtol=0.02)
    assert np.corrcoef(keys[1:].T)[0, 1] == pytest.approx(0.8, abs=0.02)


def test_jackknife_of_a_mean_is_the_t_interval():
    values = np.array([[1.0], [2.0], [4.0], [9.0]])
    found = jackknife(values, lambda means: means[..., 0])
    error = values.std(ddof=1) / 2
    assert (found.value, found.error) == (4.0, pytest.approx(error))
    assert found.high - 4.0 == pytest.approx(3.182446305 * error)
    assert found.holds(found.low)
    assert not found.holds(found.high + 0.01)


def test_jackknife_of_a_ratio_is_what_loops_give_and_near_the_delta_method():
    random = np.random.default_rng(0)
    sums = np.stack([5 + random.standard_normal(400), 20 + 2 * random.standard_normal(400)], axis=1)
    found = jackknife(sums, lambda means: means[..., 0] / means[..., 1], positive=True)
    a, b = sums.T
    left_out = [np.log(np.delete(a, i).mean() / np.delete(b, i).mean()) for i in range(400)]
    error = np.sqrt(399 * np.var(left_out))
    assert found.error == pytest.approx(found.value * error)
    assert found.high / found.value == pytest.approx(found.value / found.low)
    delta = np.std(a / a.mean() - b / b.mean(), ddof=1) / 20
    assert error == pytest.approx(delta, rel=0.02)


def test_jackknife_without_spread_or_draws():
    assert jackknife(np.ones((3, 1)), lambda means: means[..., 0] * np.inf).low is None
    assert jackknife(np.zeros((3, 1)), lambda means: means[..., 0], positive=True).low is None
    with pytest.raises(ValueError, match="2 draws or more, got 1"):
        jackknife(np.ones((1, 1)), lambda means: means[..., 0])


def test_exact_cancellation_leaves_no_noise():
    found = drawn(NoiseModel(length=300, margin=5.0, strength=1.0, second_margin=5.0, correlation=1.0), 1.0, draws=4)
    assert found["noise_mass"]["value"] == found["match_weight"]["value"] == 0
    assert found["signal_to_noise"]["low"] is None
    alone = drawn(NoiseModel(length=300, margin=5.0, strength=1.0, second_margin=4.9999, correlation=1.0), 0.0, draws=4)
    assert alone["gain"]["value"] == 1.0
    assert alone["gain"]["inside"] is None


CELLS = [
    (NoiseModel(length=length, margin=margin, strength=strength, second_margin=second, correlation=rho), lam)
    for length, margin, (strength, second), rho, lam in product(
        (2048, 8192), (3.0, 7.0), ((0.5, 0.0), (0.9, 1.0)), (-0.3, 0.5, 0.9), (0.0, 0.5, 0.9, 1.1)
    )
]


def test_the_closed_form_lies_in_its_intervals():
    """Each of 96 cells has draws of its own, so that misses are independent of one another."""
    assert all(model.holds for model, _ in CELLS)
    found = [drawn(model, lam, draws=24, seed=seed) for seed, (model, lam) in enumerate(CELLS)]
    for name in ("match_weight", "noise_mass", "signal_to_noise", "output_signal_to_noise", "gain", "negative_mass"):
        cells = [measures[name] for measures in found if measures[name]["inside"] is not None]
        assert len(cells) >= 60
        assert sum(cell["inside"] for cell in cells) >= 0.9 * len(cells), name
        off = [abs(cell["value"] - cell["closed_form"]) / cell["error"] for cell in cells]
        assert max(off) < 5, name


def test_the_closed_form_fails_near_the_strength_of_the_largest_score():
    model = NoiseModel(length=16_384, margin=16.0, strength=4.0)
    found = drawn(model, 0.0, draws=256)["signal_to_noise"]
    assert not model.holds
    assert found["closed_form"] == pytest.approx(2981, abs=1)
    assert found["low"] > 1.2 * found["closed_form"]
    assert found["inside"] is False
    assert found["value"] == pytest.approx(4609, rel=0.1)


def test_signal_to_noise_per_position_is_flat_and_the_floor_rises():
    models = [NoiseModel(length=length, margin=8.0, strength=1.0) for length in (1024, 8192, 65_536, 262_144)]
    found = [drawn(model, 0.0, draws=24) for model in models]
    for measures in found:
        ratio = measures["signal_to_noise"]
        assert abs(ratio["value"] - math.exp(7.5)) < 5 * ratio["error"]
        assert ratio["value"] == pytest.approx(math.exp(7.5), rel=0.03)
    floors = [measures["noise_mass"]["value"] for measures in found]
    assert floors == sorted(floors)
    assert floors[0] == pytest.approx(0.361, abs=0.01)
    assert floors[-1] > 0.99
    outputs = [measures["output_signal_to_noise"]["value"] for measures in found]
    assert outputs == sorted(outputs, reverse=True)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
@pytest.mark.parametrize("lam", LOSING)
def test_a_fixed_lambda_loses_above_its_threshold(lam, correlation):
    edge = LOSING[lam] / math.sqrt(1 - correlation)
    below, above = (
        drawn(NoiseModel(length=65_536, margin=6.0, strength=share * edge, correlation=correlation), lam, draws=12)
        for share in (0.97, 1.03)
    )
    assert below["gain"]["low"] > 1
    assert above["gain"]["high"] < 1


@pytest.mark.parametrize(("strength", "correlation"), [(0.3, 0.0), (1.0, 0.0), (0.5, 0.5), (1.0, 0.9), (1.0, 0.99)])
def test_the_best_lambda_gains_what_erf_says(strength, correlation):
    model = NoiseModel(length=65_536, margin=6.0, strength=strength, correlation=correlation)
    best = model.best_lambda()
    found, less, more = drawn(model, best, best - 0.1, best + 0.1, draws=16)
    assert found["gain"]["value"] == pytest.approx(1 / math.erf(strength * math.sqrt(1 - correlation)), rel=0.01)
    assert found["gain"]["value"] > max(less["gain"]["value"], more["gain"]["value"])


def test_a_fixed_lambda_over_subtracts_at_short_lengths():
    found = [
        drawn(NoiseModel(length=length, margin=8.0, strength=1.0, correlation=0.9), 0.9, draws=32)["signal_to_noise"]
        for length in (1000, 10_000, 100_000)
    ]
    for measures, expected in zip(found, (1175, 4908, 5233), strict=True):
        assert measures["value"] == pytest.approx(expected, rel=0.02)
    assert found[0]["high"] < math.exp(7.5) < found[1]["low"]


def test_a_second_map_with_the_match_only_loses():
    model = NoiseModel(length=16_384, margin=6.0, strength=1.0, second_margin=6.0, correlation=0.5)
    assert model.best_lambda() == 0
    found = drawn(model, 0.2, 0.5, 0.8, draws=16)
    assert all(measures["gain"]["high"] < 1 for measures in found)
