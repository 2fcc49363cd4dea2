"""Peak memory, forward and backward, grows with the length and not with its square."""

from __future__ import annotations

import pytest
import torch

from diffattn.ops import diff_attention
from diffattn.training.memory import PeakMemory

SHORT, LONG = 2048, 16384
KIND = PeakMemory(torch.device("cpu")).kind
needs_a_fresh_peak = pytest.mark.skipif("since it began" in KIND, reason="the system cannot forget earlier peaks")


def restrictions(length):
    documents = torch.arange(length)[None] // 500
    return {
        "causal": {},
        "window": {"window": 300},
        "documents": {"segment_ids": (documents, documents)},
        "window and documents": {"segment_ids": (documents, documents), "window": 300},
        "two-sided window": {"causal": False, "window": (200, 100)},
    }


def peak(length, name, backend="sdpa", **more):
    """Bytes above the resident memory before the call."""
    q1, q2 = (torch.randn(1, 2, length, 16).requires_grad_() for _ in range(2))
    k, v = (torch.randn(1, 1, length, 16).requires_grad_() for _ in range(2))
    memory = PeakMemory(torch.device("cpu"))
    before = memory.bytes()
    diff_attention(q1, q2, k, v, 0.5, backend=backend, **restrictions(length)[name], **more).sum().backward()
    return memory.bytes() - before


@needs_a_fresh_peak
@pytest.mark.parametrize("name", restrictions(1))
def test_memory_is_linear_in_the_length(name):
    """Eight times the length: at most 8 times the memory and a half; the square would be 64 times."""
    peak(256, name)  # what torch sets up at its first call does not count
    short, long = (max(peak(length, name), 1 << 20) for length in (SHORT, LONG))
    assert long < 12 * short
    assert long < LONG**2 / 2  # bytes: half of one mask of bools


@needs_a_fresh_peak
def test_the_measure_sees_the_square():
    assert peak(SHORT, "causal", backend="reference") > 4 * SHORT**2
    assert peak(SHORT, "causal", dropout_p=0.1) > 4 * SHORT**2
