"""The operator in each of the ways that it computes."""

from __future__ import annotations

from functools import partial

import pytest

from diffattn.ops import diff_attention, tiles

# Backend, and for the fused one the queries of a block and the documents' least average length.
WAYS = (("reference", 256, 32), ("sdpa", 3, 1), ("sdpa", 2, 1000))


@pytest.fixture(params=WAYS, ids=str)
def attend(request, monkeypatch):
    backend, block, shortest = request.param
    monkeypatch.setattr(tiles, "BLOCK", block)
    monkeypatch.setattr(tiles, "SHORTEST_DOCUMENT", shortest)
    return partial(diff_attention, backend=backend)
