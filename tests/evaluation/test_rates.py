from __future__ import annotations

import math

import numpy as np
import pytest

from diffattn.evaluation.rates import rate, wilson


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3: the score interval without continuity correction.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_against_published_values(hits, count, low, high):
    assert wilson(hits / count, count) == pytest.approx((low, high), abs=5e-5)
    assert wilson(1 - hits / count, count) == pytest.approx((1 - high, 1 - low), abs=5e-5)


@pytest.mark.parametrize("hits", [0, 1, 9, 29])
def test_one_question_a_sequence_is_wilson(hits):
    values = (np.arange(29) < hits)[:, None]
    result = rate(values, np.ones((29, 1), bool))
    assert (result.questions, result.sequences, result.share) == (29, 29, hits / 29)
    assert (result.low, result.high) == pytest.approx(wilson(hits / 29, 29), abs=1e-12)


def test_questions_that_are_all_alike_count_about_once():
    values = np.repeat(np.arange(40) < 30, 5).reshape(40, 5)
    result = rate(values, np.ones((40, 5), bool))
    # d = [40/39 sum (5 y - 5 p)^2 / 200^2] / [p (1 - p) / 199] = 199 / 39: n / d = 39 * 200 / 199
    assert (result.low, result.high) == pytest.approx(wilson(0.75, 39 * 200 / 199))


def test_a_case_by_hand_with_unequal_sequences():
    values = np.array([[1, 1, 0], [0, 9, 9], [1, 0, 9], [1, 1, 1]])
    counted = values != 9
    values = np.where(counted, values, 1)
    # sizes 3 1 2 3, sums 2 0 1 3, p = 2/3; sum - p size: 0, -2/3, -1/3, 1; squares sum to 14/9
    # between = 4/3 * 14/9 / 81 = 56/2187; of 9 independent: (2/9) / 8 = 1/36, d < 1: 9 questions
    result = rate(values, counted)
    assert (result.share, result.questions, result.sequences) == (pytest.approx(2 / 3), 9, 4)
    assert (result.low, result.high) == pytest.approx(wilson(2 / 3, 9))
    values[3], values[0] = (1, 1, 1), (0, 0, 0)
    # sums 0 0 1 3, p = 4/9; sum - p size: -12/9 -4/9 1/9 15/9; squares sum to 386/81
    # d = [4/3 * 386/81 / 81] / [(20/81) / 8] = 4/3 * 386/81 * 8/20
    result = rate(values, counted)
    assert (result.low, result.high) == pytest.approx(wilson(4 / 9, 9 / (4 / 3 * 386 / 81 * 8 / 20)))


@pytest.mark.parametrize("share", [0, 1])
def test_where_nothing_varies_each_sequence_counts_once(share):
    result = rate(np.full((12, 4), share), np.ones((12, 4), bool))
    assert (result.share, result.questions, result.sequences) == (share, 48, 12)
    assert (result.low, result.high) == pytest.approx(wilson(share, 12))


def test_the_interval_covers_what_it_says_where_sequences_differ():
    """Each of 30 sequences has its own chance, uniform from 0 to 1, for its 6 questions; the true share is a half."""
    draws, covered = np.random.default_rng(0), 0
    for _ in range(600):
        result = rate(draws.random((30, 6)) < draws.random((30, 1)), np.ones((30, 6), bool))
        covered += result.low <= 0.5 <= result.high
    assert 0.95 - 4 * math.sqrt(0.05 * 0.95 / 600) < covered / 600


def test_too_few_for_an_interval_and_nothing_at_all():
    one = rate(np.array([[1, 0, 1]]), np.ones((1, 3), bool))
    assert (one.share, one.low, one.high, one.sequences) == (pytest.approx(2 / 3), None, None, 1)
    none = rate(np.ones((3, 2)), np.zeros((3, 2), bool))
    assert (none.share, none.low, none.questions, none.sequences) == (None, None, 0, 0)
    unknown = rate(np.ones((3, 2)), np.ones((3, 2), bool), known=False)
    assert (unknown.share, unknown.high, unknown.questions) == (None, None, 6)
