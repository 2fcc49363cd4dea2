"""What parts 10 to 13 say: the figures that must be right, by other ways."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from reading import column, text_of
from scipy import integrate, stats

from diffattn.experiments.statistics import holm as holm_by_scipy
from diffattn.experiments.statistics import paired_difference
from diffattn.lesson import by_hand
from diffattn.lesson.draws import draw, normals
from diffattn.lesson.parts import behind_norm, hallucination, haystack, when
from diffattn.lesson.parts.small_model import compared
from diffattn.lesson.parts.stable_runs import event_of
from diffattn.planning.noise_model import NoiseModel

# Part 10


@pytest.mark.parametrize("correlation", [-0.3, 0.0, 0.9])
def test_the_chance_to_pass_a_level_by_another_integral(correlation):
    """Over the first map's noise instead of the second's."""
    model = NoiseModel(length=300, margin=3.0, strength=0.8, second_strength=1.3, correlation=correlation)
    lam, level, z, scores = 0.6, 0.002, (450.0, 700.0), (0.4, -0.2)
    own = math.sqrt(1 - correlation**2)

    def inside(x):
        left = (math.exp(scores[0] + 0.8 * x) / z[0] - level) * z[1] / lam
        if left <= 0:
            return 0.0
        return stats.norm.pdf(x) * stats.norm.cdf(((math.log(left) - scores[1]) / 1.3 - correlation * x) / own)

    expected = integrate.quad(inside, -9, 9, limit=400, epsabs=1e-12, points=[math.log(level * z[0]) / 0.8 - 0.5])[0]
    assert haystack.above(model, lam, level, z, scores) == pytest.approx(expected, rel=1e-4)


def test_without_lambda_the_integral_is_the_normal_tail():
    model = haystack.model(1024, 0.9)
    z = haystack.mean_sums(model, (model.margin, 0.0))
    assert haystack.above(model, 0.0, model.match_weight(), z) == pytest.approx(stats.norm.sf(3.5), rel=1e-9)
    assert haystack.hay_chance(model, 0.0, model.match_weight(), z) == pytest.approx(model.largest_chance, rel=1e-9)


def test_hits_are_counted_as_they_are_defined():
    model, lam, found = haystack.model(4096, 0.9), 0.8, 0
    stacks = haystack.haystacks(0.9)[4096]
    for first, second in stacks:
        a, b = (np.array([math.exp(m), *powers]) for m, powers in ((3.5, first), (0.0, second)))
        found += int(np.argmax(a / a.sum() - lam * b / b.sum()) == 0)
    share = haystack.hits(model, lam)
    assert (share.count, share.draws) == (found, len(stacks))
    assert 0 < found < len(stacks)


def test_draws_have_their_correlation():
    ((first, second),) = draw(NoiseModel(length=20_001, margin=0, strength=0.5, correlation=0.7), 1, seed=3)
    ((x, _),) = normals(20_000, 1, seed=3)
    assert np.log(first) == pytest.approx(0.5 * np.array(x))
    assert np.corrcoef(np.log(first), np.log(second))[0, 1] == pytest.approx(0.7, abs=0.02)


def test_near_duplicates_by_many_draws():
    rng = np.random.default_rng(5)
    x, own = rng.standard_normal((2, 400_000))
    for name, (m2, k, rho, lam) in hallucination.CASES.items():
        y = rho * x + math.sqrt(1 - rho**2) * own
        # The sums' ratio at its mean; the near-duplicate is in them.
        z1 = math.exp(3.5) + 255 * math.exp(0.5) + math.exp(3.0)
        z2 = math.exp(m2) + 255 * math.exp(0.5) + math.exp(k + 0.5)
        wrong = np.exp(2.5 + x) / z1 - lam * np.exp(k + y) / z2 > math.exp(3.5) / z1 - lam * math.exp(m2) / z2
        assert hallucination.wrong_chance(name) == pytest.approx(wrong.mean(), abs=0.003), name


def test_it_says_where_nothing_is_gained(steps):
    softmax, alone, shared = column(steps["A retriever made by hand"].table, "needles found")[-3:]
    assert alone - softmax < 0.02  # independent maps
    assert shared > 2 * softmax
    softmax, alone, shared = column(steps["When the key is not there"].table, "invented")[:3]
    assert softmax - 0.02 < alone < softmax
    assert shared < softmax / 5
    rows = {row[0]: row[3] for row in steps["What carries the gain"].table.rows}
    assert rows["rho 0.9, needle's m2 = 3.5"] < 0.01 < rows["softmax"]
    assert "no gain to speak of" in steps["A retriever made by hand"].shows


# Part 11


@pytest.mark.parametrize("seeds", [2, 3, 5, 9])
def test_a_pair_by_hand_and_by_scipy(seeds):
    rng = random.Random(seeds)
    ours, theirs = ([rng.gauss(middle, 0.02) for _ in range(seeds)] for middle in (1.6, 1.62))
    pair, expected = by_hand.Paired(ours, theirs), paired_difference(ours, theirs)
    assert pair.mean == pytest.approx(expected["difference_mean"])
    assert pair.interval == pytest.approx((expected["interval_low"], expected["interval_high"]))
    assert pair.p == pytest.approx(expected["p"], rel=1e-6)
    assert pair.detectable == pytest.approx(expected["detectable"], rel=1e-6)


def test_pairs_without_a_spread():
    same, apart = by_hand.Paired((1.0, 2.0), (1.0, 2.0)), by_hand.Paired((1.0, 2.0), (0.0, 1.0))
    assert (same.p, same.interval, same.unpaired_half > 0) == (1.0, (0.0, 0.0), True)
    assert (apart.p, apart.detectable) == (0.0, 0.0)


@pytest.mark.parametrize("values", [[0.04, 0.01, 0.03], [0.5, 0.5, 0.001, 0.02], [0.9], []])
def test_holm_by_hand(values):
    assert by_hand.holm(values) == pytest.approx(holm_by_scipy(values))


def test_the_study_agrees_with_the_hand():
    entries = compared()
    assert entries
    for entry, pair in entries:
        assert pair.p == pytest.approx(entry["p"], rel=1e-5, abs=1e-12)
        assert pair.detectable == pytest.approx(entry["detectable"], rel=1e-5)
    assert by_hand.holm([pair.p for _, pair in entries]) == pytest.approx([entry["p_holm"] for entry, _ in entries])


# Part 12


def test_a_norms_gradient_stands_at_a_right_angle_and_shrinks(steps):
    table = steps["A norm forgets how large its input is"].table
    for row in table.rows[1:]:
        assert row[0] * row[2] == pytest.approx(table.rows[1][2], rel=1e-4)
        assert row[2] == pytest.approx(row[3], rel=1e-5)
        assert abs(row[4]) < 1e-4


def test_the_gradient_by_torch():
    torch = pytest.importorskip("torch")
    x, wanted = torch.randn(2, 7, dtype=torch.float64)
    x.requires_grad_()
    (wanted * torch.nn.functional.rms_norm(x, (7,), eps=1e-5)).sum().backward()
    assert behind_norm.norm_gradient(x.tolist(), wanted.tolist()) == pytest.approx(x.grad.tolist())


def test_lambda_runs_away_unseen(steps):
    rows = steps["Lambda behind V1's norm"].table.rows
    assert rows[-1][1] > 50 * rows[0][1]
    assert all(row[2] == pytest.approx(1, abs=1e-3) for row in rows)
    assert all(row[3] == pytest.approx(row[4], rel=1e-5) for row in rows)
    assert abs(rows[-1][4]) < abs(rows[-2][4]) / 20


def test_v2_is_bounded_by_2(steps):
    table = steps["What bounds V2 without a norm"].table
    for values in ("opposite values", "uncorrelated values"):
        assert column(table, values, "measured") == pytest.approx(column(table, values))
    assert all(row[2] < 2 for row in table.rows if row[0].startswith("V2"))
    assert max(row[2] for row in table.rows if row[0].startswith("V1")) > 50


def run(**changes):
    calm = {"diverged": False, "spikes": 0, "large_lambda_at": None, "largest_lambda": 0.9, "final_loss": 3.0}
    return {**calm, **changes}


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([], "not run"),
        ([run()], "3.000"),
        ([run(), run(final_loss=4.0)], "3.500"),
        ([run(spikes=2)], "2 spikes"),
        ([run(diverged=True, final_loss=None)], "diverged"),
        ([run(diverged=True, large_lambda_at=4)], "diverged"),
        ([run(large_lambda_at=1500, largest_lambda=12.0)], "lambda over 10 at step 1,500"),
        ([run(), run(diverged=True, final_loss=None)], "1 of 2: diverged"),
    ],
)
def test_events_in_words(runs, said):
    assert event_of(runs) == said


# Part 13


def test_the_planner_answers_as_the_words_do():
    for case in when.CASES:
        answer = when.decided(case)["verdict"]["answer"]
        first = case.answer.split()[0].rstrip(":")
        assert answer == {"measure,": "use V2", "only": "consider", "marginal": "consider"}.get(first, "do not"), case


def test_the_decision_covers_lengths_and_combinations(made):
    text = " ".join(text_of(made, 13).split())
    for name, *_ in when.COMBINES:
        assert name in text
    assert "docs/combining.md" in text
    assert when.step_ratio("deepseek-v3", 1) > 1.03 > when.step_ratio("llama-3.1-8b", 1)
    assert when.step_ratio("llama-3.1-8b", 64) > 1.3
