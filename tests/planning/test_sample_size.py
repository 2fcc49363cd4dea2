"""Power and the number of pairs, against SciPy and against the project's own answer to the reverse question."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from diffattn.experiments.statistics import detectable_difference
from diffattn.planning.sample_size import (
    difference_shown,
    paired_losses,
    pairs_needed,
    power,
    t_quantile,
    tokens_needed,
)


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 30, 200])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_the_quantile_of_t(freedom, confidence):
    exact = stats.t.ppf((1 + confidence) / 2, freedom)
    assert t_quantile(freedom, confidence) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("freedom", [1, 2, 5, 40])
@pytest.mark.parametrize("shift", [0.0, 0.7, 3.0, 9.0])
def test_the_power_of_t(freedom, shift):
    exact = stats.ncf.sf(2.5**2, 1, freedom, shift**2) if shift else 2 * stats.t.sf(2.5, freedom)
    assert power(shift, freedom, 2.5) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("ratio", [0.2, 0.5, 1.0, 2.0, 5.0, 40.0])
@pytest.mark.parametrize("chance", [0.5, 0.8, 0.95])
def test_one_pair_less_would_not_do(ratio, chance):
    pairs = pairs_needed(0.01, 0.01 / ratio, chance=chance)
    assert detectable_difference(0.01 / ratio, pairs, power=chance) <= 0.01 * (1 + 1e-9)
    if pairs > 2:
        assert detectable_difference(0.01 / ratio, pairs - 1, power=chance) > 0.01


@pytest.mark.parametrize("pairs", [2, 3, 5, 40])
def test_what_so_many_pairs_show(pairs):
    assert difference_shown(pairs, 0.3) == pytest.approx(detectable_difference(0.3, pairs), rel=1e-6)


def test_no_spread_needs_two_pairs():
    assert pairs_needed(-0.01, 0.0) == 2


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.0, 1.0), "difference"),
        ((1e-9, 1.0), "difference"),
        ((0.1, -1.0), "deviation"),
        ((0.1, 1.0, 0.95, 1.0), "chance"),
    ],
)
def test_what_cannot_be_answered(arguments, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        pairs_needed(*arguments)


def pilot(**losses):
    runs = [
        {"variant": variant, "seed": seed, "evaluation": {"test": {"loss": loss}}}
        for variant, found in losses.items()
        for seed, loss in enumerate(found)
    ]
    return {"baseline": "softmax", "runs": runs, "settings": {"tokens": 1000}}


def test_a_pilots_spread_is_that_of_paired_differences():
    found = paired_losses(pilot(softmax=[4.0, 4.2, 4.1], v2=[3.9, 4.15, 4.0]), "v2")
    assert found["differences"] == pytest.approx([-0.1, -0.05, -0.1])
    assert found["mean"] == pytest.approx(-0.25 / 3)
    assert found["deviation"] == pytest.approx(0.05 / 3**0.5)
    assert found["tokens"] == 1000


def test_a_broken_seed_is_left_out_and_one_seed_has_no_spread():
    found = paired_losses(pilot(softmax=[4.0, 4.2], v2=[3.9, None]), "v2")
    assert found["differences"] == pytest.approx([-0.1])
    assert found["deviation"] is None


def test_a_pilot_without_the_variant():
    with pytest.raises(ValueError, match=r"^pilot: expected .*v1 and softmax"):
        paired_losses(pilot(softmax=[4.0], v2=[3.9]), "v1")
    with pytest.raises(ValueError, match=r"^pilot: expected"):
        paired_losses({}, "v2")


def test_the_spread_over_parts_by_hand():
    """Two parts of 100 and 300 tokens, whose means differ by 0.1 and 0.3: weighted mean 0.25."""
    results = pilot(softmax=[1.0], v2=[1.25])
    for run, nll in zip(results["runs"], ([100.0, 300.0], [110.0, 390.0]), strict=True):
        run["evaluation"]["test"] |= {"part_tokens": [100, 300], "part_nll": nll}
    variance = (100 * 0.15**2 + 300 * 0.05**2) / (2 - 1)
    assert paired_losses(results, "v2")["token_deviation"] == pytest.approx(variance**0.5)


@pytest.mark.parametrize(
    "broken",
    [
        {"runs": 5},
        {"runs": ["a", None, 3]},
        {"runs": {"a": 1}},
        {"settings": [1]},
        {"settings": {"tokens": -3}},
        {"settings": {"tokens": True}},
    ],
)
def test_a_pilot_of_another_shape_is_told_or_passed_over(broken):
    results = {**pilot(softmax=[4.0, 4.1], v2=[3.9, 4.0]), **broken}
    if "runs" in broken:
        with pytest.raises(ValueError, match=r"^pilot: expected"):
            paired_losses(results, "v2")
    else:
        assert paired_losses(results, "v2")["tokens"] is None


@pytest.mark.parametrize("loss", [None, "4.0", True, float("nan"), 10**400, [4.0]])
def test_a_loss_that_is_no_number_is_no_loss(loss):
    with pytest.raises(ValueError, match=r"^pilot: expected"):
        paired_losses(pilot(softmax=[4.0], v2=[loss]), "v2")


@pytest.mark.parametrize("parts", [([1, 2], [1.0]), (None, [1.0]), ([0, 1], [1.0, 1.0]), ([1, 1], ["a", 1.0]), (3, 4)])
def test_parts_that_do_not_fit_are_no_parts(parts):
    results = pilot(softmax=[4.0], v2=[3.9])
    for run in results["runs"]:
        run["evaluation"]["test"] |= {"part_tokens": parts[0], "part_nll": parts[1]}
    assert paired_losses(results, "v2")["token_deviation"] is None


def test_the_text_that_a_comparison_needs():
    """50 parts of 400 tokens, each token's difference drawn from N(0.02, 0.5^2)."""
    generator = np.random.default_rng(0)
    parts, size, spread = 50, 400, 0.5
    base = generator.normal(4.0, 2.0, (parts, size))
    other = base + generator.normal(0.02, spread, (parts, size))
    results = pilot(softmax=[base.mean()], v2=[other.mean()])
    for run, losses in zip(results["runs"], (base, other), strict=True):
        run["evaluation"]["test"] |= {"part_tokens": [size] * parts, "part_nll": losses.sum(axis=1).tolist()}
    found = paired_losses(results, "v2")["token_deviation"]
    assert found == pytest.approx(spread, rel=4 / (2 * parts) ** 0.5)
    assert paired_losses(pilot(softmax=[4.0], v2=[3.9]), "v2")["token_deviation"] is None
    needed = tokens_needed(0.01, spread)
    shown = np.abs(generator.normal(0.01, spread / needed**0.5, 4000)) > 1.96 * spread / needed**0.5
    assert shown.mean() == pytest.approx(0.8, abs=0.03)
