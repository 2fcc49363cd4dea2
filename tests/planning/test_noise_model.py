"""The closed form against draws and numerical integrals that share no code with it, and its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from diffattn.planning.noise_model import (
    NoiseModel,
    best_sharpening,
    limit_gain,
    losing_strength,
    margin_for_noise_mass,
)

# N, m1, m2, s1, s2, rho, lambda, and the simulated signal-to-noise that was published with the formula.
SIMULATED = [
    ((1024, 4, 0, 0.5, 0.5, 0.9, 0.8), 223.2),
    ((16384, 6, 1, 1, 1.3, 0.7, 0.6), 375.8),
    ((131072, 8, 0, 1, 1, 0.9, 1), 5071),
]


def build(length, m1, m2, s1, s2, rho):
    return NoiseModel(length=length, margin=m1, second_margin=m2, strength=s1, second_strength=s2, correlation=rho)


def drawn(model, lam, draws, seed=0):
    """Match weights, absolute and negative weights of the others, and their squares, by softmax on drawn scores."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        first = generator.standard_normal(model.length - 1)
        other = generator.standard_normal(model.length - 1)
        second = model.correlation * first + math.sqrt(1 - model.correlation**2) * other
        maps = []
        for margin, s, noise in ((model.margin, model.strength, first), (model.second_margin, model.s2, second)):
            weights = np.exp(np.append(s * noise, margin))
            maps.append(weights / weights.sum())
        signed = maps[0] - lam * maps[1]
        rest = signed[:-1]
        found.append((signed[-1], np.abs(rest).mean(), -rest[rest < 0].sum(), (rest**2).sum(), signed.sum()))
    return np.array(found)


@pytest.mark.parametrize(("numbers", "simulated"), SIMULATED)
def test_the_published_simulations(numbers, simulated):
    *rest, lam = numbers
    assert build(*rest).signal_to_noise(lam) == pytest.approx(simulated, rel=2e-3)


@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0, 1.6])
@pytest.mark.parametrize("numbers", [(2048, 5, 1, 0.7, 0.9, 0.6), (4096, 6, 0, 1, 1, 0), (4096, 3, 2, 0.5, 0.4, -0.5)])
def test_every_mean_lies_within_the_spread_of_draws(numbers, lam):
    model = build(*numbers)
    assert model.holds
    found = drawn(model, lam, draws=200)
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(len(found))
    squares = model.match_weight(lam) ** 2 / model.output_signal_to_noise(lam) ** 2
    expected = [
        model.match_weight(lam),
        model.noise_weight(lam),
        model.negative_mass(lam) if lam else 0.0,
        squares,
        1 - lam,
    ]
    # Means of ratios differ from ratios of means by the square of the sum's relative deviation, `deviation` at most.
    bias = 2 * model.deviation * np.abs(expected)
    assert np.all(np.abs(mean - expected) < 5 * error + bias + 1e-12), (mean, expected, error)


def test_mean_absolute_weight_by_integration():
    model, lam = build(4096, 5, 1, 0.8, 1.1, 0.4), 0.7
    z1, z2 = (math.exp(m) + 4095 * math.exp(s * s / 2) for m, s in ((5, 0.8), (1, 1.1)))

    def weight(y, x):
        second = 0.4 * x + math.sqrt(1 - 0.16) * y
        value = abs(math.exp(0.8 * x) / z1 - lam * math.exp(1.1 * second) / z2)
        return value * stats.norm.pdf(x) * stats.norm.pdf(y)

    exact, _ = integrate.dblquad(weight, -8, 8, -8, 8, epsabs=1e-10, epsrel=1e-7)
    assert model.noise_weight(lam) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.99, -0.5])
@pytest.mark.parametrize(("m2", "s2"), [(0, 1), (3, 1), (0, 0.6), (2, 1.4)])
def test_the_best_lambda_is_the_best(rho, m2, s2):
    model = build(65536, 8, m2, 1, s2, rho)
    best = model.best_lambda()
    grid = optimize.minimize_scalar(
        lambda lam: -model.signal_to_noise(lam), bounds=(0, 3), method="bounded", options={"xatol": 1e-10}
    )
    assert model.signal_to_noise(best) >= -grid.fun * (1 - 1e-9)
    assert model.gain(best) > 1
    output = model.best_output_lambda()
    assert output == pytest.approx(
        optimize.minimize_scalar(lambda lam: -model.output_signal_to_noise(lam), bounds=(0, 3), method="bounded").x,
        abs=1e-4,
    )


@pytest.mark.parametrize("m2", [8.0, 9.0])
def test_a_second_map_that_knows_the_match_as_well_only_hurts(m2):
    model = build(65536, 8, m2, 1, 1, 0.5)
    assert model.best_lambda() == 0
    assert model.gain(0.3) < 1


def test_the_best_lambda_without_signal_and_its_gain():
    model = build(1 << 24, 4, -50, 0.8, 0.8, 0.6)
    sigma2 = 2 * 0.8**2 * 0.4
    assert model.best_lambda() == pytest.approx(math.exp(-sigma2 / 2), rel=1e-4)
    assert model.gain(model.best_lambda()) == pytest.approx(limit_gain(0.8, 0.6), rel=1e-4)
    assert limit_gain(0.8, 0.6) == pytest.approx(1 / math.erf(0.8 * math.sqrt(0.4)))
    assert limit_gain(1, 1) == math.inf


@pytest.mark.parametrize(("lam", "threshold"), [(1, 0.954), (0.8, 1.070), (0.5, 1.277)])
def test_from_where_a_fixed_lambda_loses(lam, threshold):
    assert losing_strength(lam) == pytest.approx(threshold, abs=5e-4)
    for factor, wins in ((0.99, True), (1.01, False)):
        model = build(1 << 40, 0, -50, factor * threshold, factor * threshold, 0)
        assert (model.gain(lam) > 1) is wins


@pytest.mark.parametrize(("gain", "product"), [(3, 0.305), (10, 0.089)])
def test_what_three_and_ten_times_need(gain, product):
    assert limit_gain(product, 0) == pytest.approx(gain, rel=5e-3)


def test_signal_to_noise_is_flat_over_length_and_the_floor_is_not():
    models = [build(n, 8, 0, 1, 1, 0.9) for n in (1000, 10_000, 100_000, 256_000)]
    assert [m.signal_to_noise() for m in models] == pytest.approx([math.exp(7.5)] * 4)
    assert [round(m.signal_to_noise(0.9)) for m in models] == [1175, 4908, 5233, 5235]
    assert [m.noise_mass() for m in models] == sorted(m.noise_mass() for m in models)
    for m in models:
        assert m.noise_mass() == pytest.approx(1 - m.match_weight())


def test_eight_percent_of_noise_at_1k_is_90_at_100k():
    margin = margin_for_noise_mass(1000, 0.5, 0.08)
    masses = [build(n, margin, 0, 0.5, 0.5, 0).noise_mass() for n in (1000, 10_000, 100_000)]
    assert masses == pytest.approx([0.08, 0.465, 0.897], abs=5e-4)


def test_margin_largest_chance_and_sharpening():
    assert margin_for_noise_mass(1001, 1.0) == pytest.approx(math.log(9 * 1000) + 0.5)
    model = build(5000, 4, 0, 1.2, 1.2, 0)
    assert model.largest_chance == pytest.approx(stats.norm.cdf(4 / 1.2) ** 4999)
    assert build(5000, 0, 0, 1, 1, 0).largest_chance == 0
    c = best_sharpening(2.0, 0.8)
    sharper = build(10**6, c * 2.0, 0, c * 0.8, 1, 0)
    assert sharper.signal_to_noise() == pytest.approx(math.exp(2.0**2 / (2 * 0.8**2)))


def test_where_the_closed_form_fails_it_says_so():
    model = build(16384, 16, 0, 4, 4, 0)
    assert not model.holds
    assert model.signal_to_noise() == pytest.approx(2981, abs=0.5)
    found = drawn(model, 0.0, draws=60)
    assert found[:, 0].mean() / found[:, 1].mean() > 1.3 * model.signal_to_noise()


def test_maps_with_the_same_noise():
    model = build(4096, 5, 0, 1, 1, 1.0)
    best = model.best_lambda()
    assert model.noise_weight(best) == pytest.approx(0, abs=1e-18)
    assert model.signal_to_noise(best) > 1e9
    assert model.noise_weight(0.5 * best) == pytest.approx(0.5 * model.noise_weight())
    assert model.negative_mass(2 * best) == pytest.approx(model.noise_mass())
    nearly = build(4096, 5, 0, 1, 1, 1 - 1e-12)
    assert nearly.noise_weight(0.5) == pytest.approx(model.noise_weight(0.5))


def test_a_negative_lambda_adds():
    model = build(4096, 5, 0, 1, 1, 0.5)
    assert model.noise_weight(-0.3) == pytest.approx(
        model.noise_weight() + 0.3 * build(4096, 0, 0, 1, 1, 0).noise_weight()
    )
    assert model.negative_mass(-0.3) == 0


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"length": 1}, "length"),
        ({"strength": 0.0}, "strength"),
        ({"second_strength": -1.0}, "second_strength"),
        ({"strength": math.nan}, "strength"),
        ({"margin": math.inf}, "margin"),
        ({"second_margin": math.nan}, "second_margin"),
        ({"correlation": 1.5}, "correlation"),
        ({"correlation": math.nan}, "correlation"),
    ],
)
def test_numbers_out_of_range(change, name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        NoiseModel(**{"length": 10, "margin": 1.0, "strength": 1.0, **change})
