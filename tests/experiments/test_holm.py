"""Holm's correction against a worked example and its definition; p values against SciPy's paired test."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from diffattn.experiments.statistics import holm, paired_difference


def rejected(values, level):
    """Holm, 1979: go up the p values; stop at the first that is above level / (how many are left)."""
    left, found = sorted(range(len(values)), key=values.__getitem__), set()
    while left and values[left[0]] <= level / len(left):
        found.add(left.pop(0))
    return found


def test_a_worked_example():
    # 4 x 0.005, 3 x 0.01; then 2 x 0.03 = 0.06, below which the last, 0.04, may not fall.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize("values", product([0.001, 0.012, 0.02, 0.04, 0.3], repeat=3))
def test_what_is_rejected_is_what_the_definition_rejects(values):
    corrected = holm(values)
    for level in (0.01, 0.05, 0.1, 0.2):
        assert {place for place, p in enumerate(corrected) if p <= level + 1e-12} == rejected(values, level + 1e-12)


def test_a_single_value_stays_and_none_counts_not():
    assert holm([0.04]) == [0.04]
    assert holm([None, 0.04, None, 0.01]) == [None, 0.04, None, 0.02]
    assert holm([0.7, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("pairs", [2, 3, 9])
def test_p_agrees_with_scipys_paired_test(pairs):
    generator = np.random.default_rng(pairs)
    ours, theirs = generator.normal(0.4, 1, pairs), generator.normal(size=pairs)
    found = paired_difference(ours.tolist(), theirs.tolist())["p"]
    assert found == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)


def test_p_of_differences_without_spread():
    assert paired_difference([1.0, 2.0], [1.0, 2.0])["p"] == 1.0
    assert paired_difference([1.5, 2.5], [1.0, 2.0])["p"] == 0.0
    assert paired_difference([1.0], [2.0])["p"] is None
