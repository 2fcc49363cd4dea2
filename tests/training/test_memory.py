"""Peak memory: what was used and freed since the start is in it."""

from __future__ import annotations

import torch

from diffattn.training.memory import PeakMemory


def test_a_tensor_that_came_and_went_is_counted():
    before = PeakMemory(torch.device("cpu"))
    start = before.bytes()
    torch.ones(64 << 20, dtype=torch.uint8).add_(1)
    peak = before.bytes()
    assert peak - start > 48 << 20
    if before.kind == "resident set of the process during training":
        assert PeakMemory(torch.device("cpu")).bytes() < peak
