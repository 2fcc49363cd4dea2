"""Largest values and medians taken piece by piece are those of all numbers sorted together."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffattn.evaluation.magnitudes import Magnitudes, RunningMagnitudes, merged

RANKS = (1, 2, 3, 10, 100)


def numbers(count, seed=0):
    """Of many sizes, subnormal ones and zeros among them."""
    make = np.random.default_rng(seed)
    values = make.normal(size=count) * 10.0 ** make.uniform(-3, 4, count)
    values[:: count // 7 + 1] = 1e-42
    values[1 :: count // 5 + 1] = 0
    return values.astype(np.float32)


def taken(values, pieces, most=100):
    running = RunningMagnitudes(most)
    for piece in np.array_split(values, pieces):
        running.add(torch.from_numpy(piece))
    return running


@pytest.mark.parametrize(("count", "pieces"), [(1, 1), (2, 1), (77, 5), (101, 3), (65536, 4)])
def test_small_inputs_are_exact(count, pieces):
    values = numbers(count)
    ordered = np.sort(np.abs(values))[::-1]
    found = taken(values, pieces).result(RANKS)
    assert found.largest == tuple(float(ordered[rank - 1]) if rank <= count else None for rank in RANKS)
    assert found.median == float(np.median(ordered.astype(np.float64)))
    assert (found.count, found.not_finite) == (count, 0)


@pytest.mark.parametrize("count", [65537, 200_000, 300_001])
def test_large_inputs_have_exact_tops_and_medians_to_a_half_of_a_thousandth(count):
    values = numbers(count, seed=count)
    ordered = np.sort(np.abs(values))[::-1]
    parts = [taken(part, 4) for part in np.array_split(values, 3)]
    for found in (taken(values, 5).result(RANKS), merged(parts, 100).result(RANKS)):
        assert found.largest == tuple(float(ordered[rank - 1]) for rank in RANKS)
        assert found.median == pytest.approx(float(np.median(ordered)), rel=2**-11)
        assert found.count == count


def test_small_parts_are_exact_together_while_they_are_few():
    one, other = numbers(500), numbers(701, seed=1)
    found = merged([taken(one, 2), taken(other, 2)], 100).result((1,))
    assert found.median == float(np.median(np.abs(np.concatenate([one, other]).astype(np.float64))))


def test_what_is_not_finite_is_counted_and_what_is_masked_is_not():
    running = RunningMagnitudes(2)
    running.add(torch.tensor([[1.0, -3.0], [-torch.inf, torch.nan]]), masked=True)
    running.add(torch.tensor([torch.inf, -2.0, -torch.inf], dtype=torch.float64))
    assert running.result((1, 2)) == Magnitudes(largest=(3.0, 2.0), median=2.0, count=3, not_finite=3)
    nothing = RunningMagnitudes(1).result((1,))
    assert nothing == Magnitudes(largest=(None,), median=None, count=0, not_finite=0)
