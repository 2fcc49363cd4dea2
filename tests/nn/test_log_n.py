"""Queries scaled by the logarithm of the keys that they see, against loops over numbers."""

from __future__ import annotations

import math

import pytest
import torch

from diffattn.nn import DiffAttentionV1, DiffAttentionV2, GatedAttention, SoftmaxAttention
from diffattn.nn.log_n import scale_by_log_n
from oracle import loop_attention, rules

WIDTH, T = 24, 7


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("window", [None, 1, 3])
def test_the_layer_scales_its_scores(window):
    """No rotation, so that every score is a product of projections times log(n) / log(11)."""
    made = {"dtype": torch.float64, "rope_base": None, "log_n_length": 11, "window": window}
    layer = SoftmaxAttention(WIDTH, 3, 1, **made)
    x = torch.randn(2, T, WIDTH, dtype=torch.float64)
    q, k, v = (
        p(x).view(2, T, heads, 8).transpose(1, 2)
        for p, heads in ((layer.q_proj, 3), (layer.k_proj, 1), (layer.v_proj, 1))
    )
    counts = [min(i + 1, window or T) for i in range(T)]
    rows = []
    for i, n in enumerate(counts):
        scale = 8**-0.5 * math.log(max(n, 2)) / math.log(11)
        allowed = rules(T, T, window=window)
        row = loop_attention(q, q, k, v, 0.0, allowed, scale=scale)
        rows.append(row[:, :, i])
    expected = torch.stack(rows, dim=2).transpose(1, 2).flatten(2)
    torch.testing.assert_close(layer(x), layer.o_proj(expected), rtol=1e-12, atol=1e-13)
    assert not torch.allclose(layer(x)[:, -1], SoftmaxAttention(WIDTH, 3, 1, dtype=torch.float64)(x)[:, -1])


@pytest.mark.parametrize("kind", [SoftmaxAttention, GatedAttention, DiffAttentionV1, DiffAttentionV2])
def test_every_layer_restarts_with_its_positions(kind):
    layer = kind(32, 2, log_n_length=16, dtype=torch.float64)
    x = torch.randn(1, 9, 32, dtype=torch.float64)
    segments = torch.tensor([[0] * 5 + [1] * 4])
    positions = torch.tensor([[*range(5), *range(4)]])
    packed = layer(x, positions=positions, segment_ids=(segments, segments))
    torch.testing.assert_close(packed[:, 5:], layer(x[:, 5:]))
    plain = layer(x, segment_ids=(segments, segments))
    assert not torch.allclose(plain[:, 5:], packed[:, 5:])


def test_one_key_counts_as_two_and_the_length_as_one():
    q = torch.ones(1, 4, 2, 3)
    got = scale_by_log_n(q, torch.tensor([[0, 1, 7, 62]]), 8)
    expected = torch.tensor([1 / 3, 1 / 3, 1.0, math.log(63) / math.log(8)])
    torch.testing.assert_close(got, expected.view(1, 4, 1, 1).expand(1, 4, 2, 3))
    half = scale_by_log_n(q.bfloat16() * 1.0078125, torch.tensor([[5, 6, 7, 8]]), 8)
    exact = (1.0078125 * torch.tensor([6.0, 7, 8, 9]).log() / math.log(8)).bfloat16()
    assert torch.equal(half, exact.view(1, 4, 1, 1).expand(1, 4, 2, 3))


@pytest.mark.parametrize("length", [1, 0, -3, 2.5, True])
def test_lengths_that_do_not_fit_are_refused(length):
    with pytest.raises(ValueError, match=r"^log_n_length: expected a whole number of 2 or more, or None, got"):
        SoftmaxAttention(WIDTH, 3, log_n_length=length)


def test_what_cannot_be_counted_is_refused():
    layer = SoftmaxAttention(WIDTH, 3, log_n_length=8)
    x = torch.randn(1, T, WIDTH)
    with pytest.raises(ValueError, match=r"^causal: expected True with log_n_length"):
        layer(x, causal=False)
    with pytest.raises(ValueError, match=r"^positions: expected int"):
        layer.project(x)
