"""Twenty thousand random calls, drawn and shrunk by hypothesis; a million by `python tests/million.py`."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import random_cases
from diffattn.ops import diff_attention
from random_cases import check_case, draw_case

CHOICES = 64  # a case makes at most so many


@settings(max_examples=20_000, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(min_size=CHOICES, max_size=CHOICES))
def test_random_calls_equal_loops(choices):
    """One draw a case, since a draw a choice would take longer than the case; zeros are the simplest choices."""
    left = iter(choices)
    check_case(draw_case(lambda options: options[next(left) % len(options)]))


@pytest.mark.parametrize("part", ["output", "q1", "v", "lam"])
def test_a_wrong_value_is_seen(monkeypatch, part):
    """A thousandth too much in one place, in float64 or float32, fails."""
    right = random_cases.run
    at = {"q1": 0, "v": 3, "lam": 4}.get(part)

    def wrong(case, tensors, grad, backend):
        out, grads = right(case, tensors, grad, backend)
        if backend == "sdpa" and part == "output":
            out = out + 1e-3
        elif backend == "sdpa" and at is not None and len(grads) > at:
            grads = (*grads[:at], grads[at] + 1e-1, *grads[at + 1 :])
        return out, grads

    monkeypatch.setattr(random_cases, "run", wrong)
    failures = []
    for seed in range(60):
        case = draw_case(random.Random(seed).choice)
        case.differentiated = True
        try:
            check_case(case)
        except AssertionError as error:
            failures.append(str(error))
    assert len(failures) > 25
    assert all(part in failure for failure in failures)


def test_infinity_and_nan_stand_where_nothing_looks():
    """A backend that reads them fails."""
    case = next(case for case in (draw_case(random.Random(seed).choice) for seed in range(500)) if _has_unseen(case))
    check_case(case)
    assert not case.tensors[2].isfinite().all()
    case.arguments["mask"] = torch.ones_like(case.arguments["mask"])
    assert not diff_attention(*case.tensors, **case.arguments).isfinite().all()


def _has_unseen(case):
    mask = case.arguments.get("mask")
    return (
        case.poisoned and case.arguments["causal"] is False and mask is not None and mask.ndim == 2 and not mask.all()
    )
