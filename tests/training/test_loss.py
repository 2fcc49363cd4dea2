"""The loss in pieces equals the loss as a whole."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from diffattn.training import loss as module
from diffattn.training.loss import next_token_loss


def whole(hidden, weight, tokens):
    logits = hidden[:, :-1] @ weight.T
    return cross_entropy(
        logits.float().flatten(0, 1) if logits.dtype == torch.bfloat16 else logits.flatten(0, 1),
        tokens[:, 1:].flatten(),
    )


def inputs(dtype):
    torch.manual_seed(0)
    hidden = torch.randn(3, 11, 8, dtype=dtype, requires_grad=True)
    weight = torch.randn(37, 8, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(37, (3, 11))


@pytest.mark.parametrize("piece", [1, 37 * 7, 1 << 20])
def test_loss_and_gradients_equal_the_whole(piece, monkeypatch):
    monkeypatch.setitem(module._PIECE, "cpu", piece)
    hidden, weight, tokens = inputs(torch.float64)
    found = next_token_loss(hidden, weight, tokens)
    expected = whole(hidden, weight, tokens)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    for ours, theirs in zip(
        torch.autograd.grad(3 * found, (hidden, weight)),
        torch.autograd.grad(3 * expected, (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-14)


def test_divisor_scales_for_accumulation():
    hidden, weight, tokens = inputs(torch.float32)
    halves = next_token_loss(hidden, weight, tokens, 60)
    torch.testing.assert_close(halves, next_token_loss(hidden, weight, tokens) / 2)


def test_autocast_is_no_worse_than_a_linear():
    hidden, weight, tokens = inputs(torch.float32)
    exact = torch.autograd.grad(whole(hidden.double(), weight.double(), tokens), weight)[0]
    with torch.autocast("cpu", torch.bfloat16):
        found = next_token_loss(hidden, weight, tokens)
        usual = whole(hidden, weight, tokens)
    assert found.dtype == torch.float32
    errors = [(torch.autograd.grad(value, weight)[0] - exact).norm() for value in (found, usual)]
    assert errors[0] <= 2 * errors[1]
    torch.testing.assert_close(found, usual, rtol=1e-2, atol=0)


def test_huge_logits_stay_finite():
    hidden, weight, tokens = inputs(torch.float32)
    value = next_token_loss(hidden * 1e4, weight, tokens)
    assert torch.isfinite(value)
    assert all(torch.isfinite(gradient).all() for gradient in torch.autograd.grad(value, (hidden, weight)))
