"""The numbers of a head, against loops over Python's numbers that share no code with them."""

from __future__ import annotations

import math
import statistics

import pytest
import torch

from diffattn.evaluation.score_numbers import map_numbers, noise_keys, signed_numbers

PROBES, HEADS, LENGTH = 3, 2, 13


def random_case(seed=0, window=None):
    make = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, PROBES, HEADS, LENGTH, generator=make) * 2
    if window:
        first[..., :-window], second[..., :-window] = -torch.inf, -torch.inf
    return first, second, torch.rand(PROBES, HEADS, generator=make), torch.tensor([6, 11, 8])


def softmax(scores):
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    return [power / sum(powers) for power in powers]


def noise_of(scores, answer):
    return [k for k, z in enumerate(scores) if k not in (0, answer, len(scores) - 1) and z > -math.inf]


def map_by_loops(scores, answer):
    noise = noise_of(scores, answer)
    z, weights = [scores[k] for k in noise], softmax(scores)
    return {
        "margin": scores[answer] - statistics.fmean(z),
        "strength": statistics.pstdev(z),
        "effective_strength": math.sqrt(2 * math.log(statistics.fmean(math.exp(s - statistics.fmean(z)) for s in z))),
        "answer_mass": weights[answer],
        "sink_mass": weights[0],
        "rest_mass": sum(w for k, w in enumerate(weights) if k not in (0, answer)),
        "log_signal_to_noise": math.log(weights[answer] / statistics.fmean(weights[k] for k in noise)),
        "largest": all(scores[k] < scores[answer] for k in range(1, len(scores)) if k != answer),
    }


def signed_by_loops(first, second, lam, answer):
    noise = noise_of(first, answer)
    weights = [a - lam * b for a, b in zip(softmax(first), softmax(second), strict=True)]
    rest = [k for k in range(len(weights)) if k not in (0, answer)]
    return {
        "correlation": statistics.correlation([first[k] for k in noise], [second[k] for k in noise]),
        "answer_weight": weights[answer],
        "sink_mass": abs(weights[0]),
        "rest_mass": sum(abs(weights[k]) for k in rest),
        "absolute_mass": sum(map(abs, weights)),
        "negative_mass": -sum(min(w, 0.0) for w in weights),
        "log_signal_to_noise": math.log(abs(weights[answer]) / statistics.fmean(abs(weights[k]) for k in noise)),
        "largest": all(weights[k] < weights[answer] for k in rest if first[k] > -math.inf),
    }


def assert_numbers(got, expected, probe, head):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert got[name].shape == (PROBES, HEADS), name
        assert got[name][probe, head].item() == pytest.approx(value, rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize("seed", range(4))
def test_one_map_and_the_signed_map(seed, window):
    first, second, lam, answer = random_case(seed, window)
    one, signed = map_numbers(first, answer), signed_numbers(first, second, lam, answer)
    for probe in range(PROBES):
        for head in range(HEADS):
            rows = first[probe, head].tolist(), second[probe, head].tolist()
            at = answer[probe].item()
            assert_numbers(one, map_by_loops(rows[0], at), probe, head)
            assert_numbers(signed, signed_by_loops(*rows, lam[probe, head].item(), at), probe, head)


def test_the_largest_is_seen_in_both_directions():
    first, second, lam, _ = random_case()
    answer = first[:, 0, 1:-1].argmax(-1) + 1
    first[:, 0].scatter_(-1, answer[:, None], 9.0)
    first[:, 1].scatter_(-1, answer[:, None], -9.0)
    first[..., 0] = 20.0  # the sink does not count
    assert map_numbers(first, answer)["largest"].tolist() == [[True, False]] * PROBES
    assert signed_numbers(first, second, 0 * lam, answer)["largest"].tolist() == [[True, False]] * PROBES


def test_known_numbers():
    """Noise scores +1 and -1 in turn: margin 3, strength 1, and the second map's are the same or the opposite."""
    z = torch.tensor([5.0, 1.0, -1.0, 1.0, 3.0, -1.0, 2.0])[None, None]
    answer = torch.tensor([4])
    one = map_numbers(z, answer)
    assert (one["margin"].item(), one["strength"].item()) == (3.0, 1.0)
    total = sum(math.exp(s) for s in (5, 1, -1, 1, 3, -1, 2))
    assert one["answer_mass"].item() == pytest.approx(math.exp(3) / total)
    assert one["log_signal_to_noise"].item() == pytest.approx(3 - math.log(math.cosh(1)))
    lam = torch.ones(1, 1)
    assert signed_numbers(z, 2 * z + 1, lam, answer)["correlation"].item() == pytest.approx(1)
    assert signed_numbers(z, -z, lam, answer)["correlation"].item() == pytest.approx(-1)
    assert signed_numbers(z, 0 * z, lam, answer)["correlation"].item() == 0
    same = signed_numbers(z, z, lam, answer)
    assert same["absolute_mass"].item() == 0
    assert math.isfinite(same["log_signal_to_noise"].item())


def test_strength_and_effective_strength_of_gaussian_noise_are_the_same():
    z = torch.randn(1, 1, 200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    numbers = map_numbers(1.5 * z, torch.tensor([7]))
    assert numbers["strength"].item() == pytest.approx(1.5, rel=0.01)
    assert numbers["effective_strength"].item() == pytest.approx(1.5, rel=0.01)
    skewed = map_numbers(-z.square(), torch.tensor([7]))  # most of its spread is far below
    assert skewed["effective_strength"].item() == pytest.approx(math.sqrt(2 * (1 - math.log(3) / 2)), rel=0.01)
    assert skewed["strength"].item() == pytest.approx(math.sqrt(2), rel=0.02)


def test_an_answer_outside_the_window():
    first, _, _, _ = random_case(window=4)
    numbers = map_numbers(first, torch.tensor([2, 3, 4]))
    assert numbers["margin"].eq(-torch.inf).all()
    assert not numbers["largest"].any()
    assert noise_keys(first, torch.tensor([2, 3, 10])).sum(-1).tolist() == [[3, 3], [3, 3], [2, 2]]


def test_weights_too_small_for_float32_still_have_a_ratio():
    z = torch.tensor([400.0, 0.0, 0.0, 0.0, -300.0, 0.0, 0.0])[None, None]
    assert map_numbers(z, torch.tensor([4]))["log_signal_to_noise"].item() == pytest.approx(-300)
