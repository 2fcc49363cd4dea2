"""Learned sinks in the softmax's denominator: both ways to compute them against loops over numbers."""

from __future__ import annotations

import random
from contextlib import contextmanager

import pytest
import torch

from diffattn.ops import softmax_attention, tiles
from diffattn.ops.sinks import sink_as_a_key
from diffattn.ops.validation import check_scale, validate_sight
from oracle import loop_attention_with_sinks, rules
from random_cases import blind_rows, draw_case, gradient_bounds, hold, output_bound, poison

SIGHT = ("causal", "window", "mask", "k_lengths", "segment_ids")


def as_a_key(q, k, v, sinks=None, scale=None, dropout_p=0.0, **given):
    """What other devices than the CPU take, on the CPU."""
    sight = validate_sight(q, k, **{**dict.fromkeys(SIGHT), "causal": True, **given})
    return sink_as_a_key(q, k, v, sinks, sight, check_scale(scale, q.shape[3]), dropout_p)


WAYS = {"in blocks": softmax_attention, "as a key": as_a_key}
every_way = pytest.mark.parametrize("attend", WAYS.values(), ids=WAYS)


def explicit(q, k, v, sinks, seen, scale):
    """The formula with whole matrices, for its gradients; keys and values that nobody sees are 0."""
    repeat = q.shape[1] // k.shape[1]
    k, v = (x.nan_to_num(0.0, 0.0, 0.0).repeat_interleave(repeat, 1) for x in (k, v))
    scores = (q @ k.transpose(2, 3) * scale).masked_fill(~seen, -torch.inf)
    column = sinks[None, :, None, None].expand(*scores.shape[:3], 1)
    return torch.softmax(torch.cat((column, scores), dim=-1), dim=-1)[..., 1:] @ v


@contextmanager
def cuts(case):
    before = tiles.BLOCK, tiles.SHORTEST_DOCUMENT
    tiles.BLOCK, tiles.SHORTEST_DOCUMENT = case.block, case.shortest_document
    try:
        yield
    finally:
        tiles.BLOCK, tiles.SHORTEST_DOCUMENT = before


def drawn(seed):
    """A random call: one map's queries and key, and a sink a head."""
    case = draw_case(random.Random(seed).choice)
    q, _, k, _, _ = case.tensors
    case.tensors[2] = k[..., : q.shape[3]]
    sinks = torch.randn(q.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2
    sinks = sinks.to(torch.float64 if q.dtype == torch.float64 else torch.float32)
    return case, sinks


@every_way
def test_random_calls_equal_loops(attend):
    for seed in range(400):
        case, sinks = drawn(seed)
        sight = {name: value for name, value in case.arguments.items() if name != "scale"}
        may_see = rules(case.tensors[0].shape[2], case.tensors[2].shape[2], **sight)
        if case.poisoned:
            poison(case, may_see)
        q, _, k, v, _ = case.tensors
        exact, size = loop_attention_with_sinks(q, k, v, sinks, may_see, case.arguments["scale"])
        leaves = [x.detach().requires_grad_() for x in (q, k, v, sinks)]
        with cuts(case):
            out = attend(*leaves[:3], sinks=leaves[3], **case.arguments)
            hold(case, f"{seed}: output", out, exact, output_bound(case, "sdpa", exact, size))
            grad = torch.randn(exact.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(q.dtype)
            want_grad, blind = grad.double(), blind_rows(exact, may_see, k.shape[2])
            if case.poisoned:
                grad[blind] = float("nan")
            want_grad[blind] = 0.0
            got = torch.autograd.grad(out, leaves, grad)
        wide = [x.detach().double().requires_grad_() for x in (q, k, v, sinks)]
        B, H, Tq, _ = q.shape
        each = [may_see(b, h, i, j) for b in range(B) for h in range(H) for i in range(Tq) for j in range(k.shape[2])]
        seen = torch.tensor(each).view(B, H, Tq, -1)
        scale = case.arguments["scale"] or q.shape[3] ** -0.5
        want = torch.autograd.grad(explicit(*wide, seen, scale), wide, want_grad)
        of_q, _, of_k, of_v, _ = gradient_bounds(case, grad.nan_to_num(0.0))
        of_sinks = of_q / min(scale, 1.0) * B * Tq * max(1.0, q.shape[3] ** 0.5)
        bounds = (of_q, of_k, of_v, max(of_sinks, 1e-5 if q.dtype != torch.float64 else 1e-12))
        for name, one, other, bound in zip(("q", "k", "v", "sinks"), got, want, bounds, strict=True):
            hold(case, f"{seed}: gradient of {name}", one, other, bound)


@every_way
def test_derivatives_are_those_of_finite_differences(attend):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 4, 3, dtype=torch.float64, requires_grad=True) for heads in (2, 1, 1))
    sinks = torch.randn(2, dtype=torch.float64, requires_grad=True)
    for sight in ({}, {"window": 2}, {"k_lengths": torch.tensor([3, 0])}, {"causal": False}):
        assert torch.autograd.gradcheck(lambda *x, sight=sight: attend(*x[:3], sinks=x[3], **sight), (q, k, v, sinks))


@every_way
def test_planted_weights(attend):
    """Scores of 0: n keys and a sink of ln 5 give each key 1 / (n + 5); a sink of -50 is none, one of 50 takes all."""
    q, k = torch.zeros(1, 3, 4, 8), torch.randn(1, 1, 4, 8)
    v = torch.arange(4.0).view(1, 1, 4, 1)
    out = attend(q, k, v, sinks=torch.tensor([5.0, 1e-22, 5e21]).log())
    sums = v[0, 0, :, 0].cumsum(0)
    expected = torch.stack((sums / torch.arange(6.0, 10), sums / torch.arange(1.0, 5), torch.zeros(4)))
    torch.testing.assert_close(out[0, :, :, 0], expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_large_sink_is_not_rounded_to_a_narrow_dtype(dtype):
    """Of 40.11 beside a score of 40 bfloat16 would keep 40: a weight off by 2 in 100, and the outputs by as much."""
    q = torch.zeros(1, 1, 1, 64, dtype=dtype)
    q[..., 0] = 320  # times a key of 1 and the scale of 1/8: exactly 40
    k, v = torch.ones(1, 1, 1, 64, dtype=dtype), torch.ones(1, 1, 1, 64, dtype=dtype)
    expected = torch.sigmoid(torch.tensor(-0.11))
    for attend in WAYS.values():
        assert abs(attend(q, k, v, sinks=torch.tensor([40.11])).float().mean() - expected) < expected * 2**-8


@every_way
def test_widths_layouts_and_autocast(attend):
    torch.manual_seed(0)
    sinks = torch.randn(4)
    for width in (3, 8, 11):
        q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, width)
        expected, _ = loop_attention_with_sinks(q, k, v, sinks, rules(5, 7))
        torch.testing.assert_close(attend(q, k, v, sinks=sinks).double(), expected, rtol=1e-5, atol=1e-6)
    with torch.autocast("cpu", torch.bfloat16):
        assert softmax_attention(q, k, v, sinks=sinks).dtype == torch.bfloat16


def test_dropout_leaves_the_sinks_share_alone():
    """Weights of 1 / (n + 1) are dropped or doubled; the mean over many draws is the sum without dropout."""
    torch.manual_seed(0)
    q, k, v = torch.zeros(64, 2, 3, 8), torch.randn(64, 1, 3, 8), torch.ones(64, 1, 3, 1)
    out = softmax_attention(q, k, v, sinks=torch.zeros(2), dropout_p=0.5)[..., 0]
    for i, n in enumerate((1, 2, 3)):
        counts = out[:, :, i] * (n + 1) / 2
        assert torch.allclose(counts, counts.round(), atol=1e-5)
        assert abs(counts.mean() - n / 2) < 0.2
    assert not out[:, :, 0].bool().all()


@every_way
def test_a_query_that_sees_nothing_harms_no_other(attend):
    torch.manual_seed(0)
    x = [torch.randn(1, heads, 4, 8) for heads in (2, 1, 1)] + [torch.randn(2)]
    mask = torch.tensor([True, False, True, True])[None, None, :, None]
    found = []
    for value in (0.0, float("nan")):
        leaves = [t.clone().requires_grad_() for t in x]
        q = torch.where(mask, leaves[0], value)
        out = attend(q, *leaves[1:3], sinks=leaves[3], mask=mask, causal=False)
        found.append((out, *torch.autograd.grad(out.square().sum(), leaves)))
    assert not found[0][0][:, :, 1].any()
    for plain, poisoned in zip(*found, strict=True):
        torch.testing.assert_close(poisoned, plain)


def test_nothing_to_see_gives_0_and_gradients_of_0():
    q, k = torch.randn(1, 2, 3, 4, requires_grad=True), torch.randn(1, 1, 0, 4, requires_grad=True)
    sinks = torch.randn(2, requires_grad=True)
    out = softmax_attention(q, k, k, sinks=sinks)
    assert torch.equal(out, torch.zeros(1, 2, 3, 4))
    assert all(not grad.any() for grad in torch.autograd.grad(out.sum(), (q, k, sinks)))


@pytest.mark.parametrize("sight", [{}, {"window": 3}, {"k_lengths": torch.tensor([9, 4])}], ids=str)
def test_compiles_maps_and_differentiates_as_a_function(sight):
    torch.manual_seed(0)
    x = [torch.randn(2, heads, length, 8, dtype=torch.float64) for heads, length in ((4, 5), (2, 9), (2, 9))]
    x = [t.requires_grad_() for t in (*x, torch.randn(4, dtype=torch.float64))]

    def call(q, k, v, sinks):
        return softmax_attention(q, k, v, sinks=sinks, **sight)

    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*x), call(*x))
    want = torch.autograd.grad(call(*x).square().sum(), x)
    for grads in (
        torch.autograd.grad(compiled(*x).square().sum(), x),
        torch.func.grad(lambda *t: call(*t).square().sum(), argnums=(0, 1, 2, 3))(*(t.detach() for t in x)),
    ):
        for got, expected in zip(grads, want, strict=True):
            torch.testing.assert_close(got, expected)
    many = torch.randn(3, 4, dtype=torch.float64)
    mapped = torch.func.vmap(lambda sinks: call(*x[:3], sinks))(many)
    torch.testing.assert_close(mapped, torch.stack([call(*x[:3], sinks) for sinks in many]))
    (first,) = torch.autograd.grad(call(*x).sum(), x[3], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        first.sum().backward()


@pytest.mark.parametrize("sinks", [torch.zeros(3), torch.zeros(1, 4), torch.zeros(4, dtype=torch.long), 0.5])
def test_sinks_that_do_not_fit_are_refused(sinks):
    q = torch.randn(1, 4, 3, 8)
    with pytest.raises(
        ValueError, match=r"^sinks: expected a floating-point tensor of shape \[H\] = \[4\] on cpu, got"
    ):
        softmax_attention(q, q, q, sinks=sinks)
