"""Whatever fresh memory holds, results are the same: nothing is read before it is written.

Torch's deterministic mode fills fresh memory with NaN, inside of its kernels too; and the functions of Python that
hand out such memory are replaced by ones that fill it, so that the tests rest on neither alone. The same holds of what
a caller leaves unwritten: keys that nobody sees and queries that see nothing.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.utils import deterministic

from diffattn.ops import diff_attention, diff_attention_weights, softmax_attention, tiles

B, TQ, TK, D = 2, 7, 9, 4
SEGMENTS = (
    torch.tensor([[0, 0, 1, 1, 1, 4, 4], [9, 2, 2, 2, 3, 3, 3]]),
    torch.tensor([[0] * 4 + [1] * 3 + [4] * 2] * 2),
)
SCATTERED = (torch.tensor([[0, 1, 0, 1, 2, 2, 0]] * 2), torch.tensor([[0, 1, 0, 1, 1, 2, 2, 0, 7]] * 2))
SIGHTS = {
    "causal": {},
    "all": {"causal": False},
    "window": {"window": 2},
    "two sides": {"causal": False, "window": (0, 1)},
    "left padding": {"mask": torch.arange(TK) >= torch.tensor([[4], [0]])},
    "right padding": {"mask": torch.arange(TK) < torch.tensor([[TK], [1]])},
    "holes": {"mask": torch.rand(B, TK, generator=torch.Generator().manual_seed(1)) > 0.5},
    "nothing seen": {"mask": torch.zeros(B, TK).bool()},
    "a mask a head": {"mask": torch.rand(B, 4, TQ, TK, generator=torch.Generator().manual_seed(2)) > 0.7},
    "lengths": {"k_lengths": torch.tensor([0, 5])},
    "short lengths": {"k_lengths": torch.tensor([3, 3])},
    "documents": {"segment_ids": SEGMENTS},
    "scattered documents": {"segment_ids": SCATTERED, "window": 3},
    "all at once": {"segment_ids": SEGMENTS, "k_lengths": torch.tensor([8, 5]), "window": 4},
    "dropout": {"dropout_p": 0.4, "k_lengths": torch.tensor([0, 5])},
}
SHAPES = {
    "key pair, grouped noise": {"Hn": 2, "width": 2 * D},
    "wide values": {"Dv": 3 * D - 1},
    "more queries than keys": {"Tk": 3},
}


def fill_new_memory(monkeypatch):
    """Every way in which Python code is given memory that nobody wrote."""
    for owner, name in (
        (torch, "empty"),
        (torch, "empty_like"),
        (torch, "empty_strided"),
        (torch.Tensor, "new_empty"),
    ):
        monkeypatch.setattr(owner, name, filled(getattr(owner, name)))


def filled(make):
    def made(*args, **kwargs):
        fresh = make(*args, **kwargs)
        return fresh.fill_(float("nan")) if fresh.is_floating_point() else fresh

    return made


@pytest.fixture(params=["by torch", "by hand"])
def fill(request, monkeypatch):
    """A function after whose call fresh memory holds NaN, until the test ends."""
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        deterministic.fill_uninitialized_memory,
    )

    def by_torch():
        torch.use_deterministic_algorithms(True)
        deterministic.fill_uninitialized_memory = True

    yield by_torch if request.param == "by torch" else lambda: fill_new_memory(monkeypatch)
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    deterministic.fill_uninitialized_memory = before[2]


@pytest.fixture(params=[("reference", 256, 32), ("sdpa", 256, 32), ("sdpa", 2, 1)], ids=str)
def attend(request, monkeypatch):
    """By one backend; for the fused one with the queries of a block and the documents' least average length."""
    backend, block, shortest = request.param
    monkeypatch.setattr(tiles, "BLOCK", block)
    monkeypatch.setattr(tiles, "SHORTEST_DOCUMENT", shortest)
    return partial(diff_attention, backend=backend)


def make(dtype, Hn=4, Tq=TQ, Tk=TK, width=D, Dv=None):
    generator = torch.Generator().manual_seed(0)
    shapes = ((B, 4, Tq, D), (B, Hn, Tq, D), (B, 2, Tk, width), (B, 2, Tk, Dv or width), (B, 4, Tq))
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def results(function, x, grad=True):
    """Output and gradients; dropout draws the same each time."""
    torch.manual_seed(0)
    leaves = [t.clone().requires_grad_(grad) for t in x]
    out = function(*leaves)
    return [out.detach(), *(torch.autograd.grad(out.square().sum(), leaves, allow_unused=True) if grad else ())]


def same(function, x, fill):
    plain = results(function, x)
    fill()
    for got, want in zip(results(function, x), plain, strict=True):
        assert want is not None
        assert want.isfinite().all()
        assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_control_fresh_memory_holds_nan(fill, dtype):
    fill()
    x = torch.ones(3, dtype=dtype)
    for fresh in (torch.empty(3, dtype=dtype), torch.empty_like(x), x.new_empty(5)):
        assert fresh.isnan().all()


def test_control_a_result_left_unwritten_is_seen(fill, monkeypatch):
    """The batch row that sees nothing is in no block."""
    monkeypatch.setattr("diffattn.ops.blockwise._empty", left_unwritten)
    fill()
    mask = torch.arange(TK) >= torch.tensor([[TK], [0]])
    out = diff_attention(*make(torch.float32), mask=mask, backend="sdpa")
    assert out[0].isnan().all()
    assert out[1].isfinite().all()


def left_unwritten(q):
    return torch.empty(q.shape, dtype=q.dtype), torch.empty(q.shape[:4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SIGHTS)
def test_outputs_and_gradients(fill, attend, name, dtype):
    same(partial(attend, **SIGHTS[name]), make(dtype), fill)


@pytest.mark.parametrize("arguments", [{}, {"window": 2}, {"k_lengths": torch.tensor([0, 3])}])
@pytest.mark.parametrize("shape", SHAPES)
def test_other_shapes(fill, attend, shape, arguments):
    same(partial(attend, **arguments), make(torch.bfloat16, **SHAPES[shape]), fill)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SIGHTS)
def test_keys_that_nobody_sees_and_queries_that_see_nothing_may_be_nan(attend, name, dtype):
    x, sight = make(dtype), SIGHTS[name]
    looked = {key: value for key, value in sight.items() if key != "dropout_p"}
    seen = diff_attention_weights(*x[:3], x[4], **looked).signal > 0
    unseen, blind = ~seen.flatten(1, 2).any(1)[:, None, :, None], ~seen.any(-1, keepdim=True)
    hidden = (blind, blind, unseen, unseen)
    clean, dirty = (
        [t.masked_fill(here, fill) for t, here in zip(x[:4], hidden, strict=True)] for fill in (0.0, torch.nan)
    )
    call = partial(attend, **sight)
    for got, want in zip(results(call, [*dirty, x[4]]), results(call, [*clean, x[4]]), strict=True):
        assert want.isfinite().all()
        assert torch.equal(got, want)


@pytest.mark.parametrize("Tq", [1, 0])
@pytest.mark.parametrize("arguments", [{}, {"window": 2}, {"k_lengths": torch.tensor([0, 3])}])
def test_one_query_or_none(fill, attend, arguments, Tq):
    same(partial(attend, **arguments), make(torch.float32, Tq=Tq), fill)


@pytest.mark.parametrize("name", SIGHTS)
def test_ordinary_attention_and_the_maps(fill, name):
    sight = SIGHTS[name]
    q1, q2, k, v, lam = make(torch.float32)
    plain = results(partial(softmax_attention, **sight), (q1, k, v))
    looked = {key: value for key, value in sight.items() if key != "dropout_p"}
    maps = diff_attention_weights(q1, q2, k, lam, **looked)
    fill()
    for got, want in zip(results(partial(softmax_attention, **sight), (q1, k, v)), plain, strict=True):
        assert torch.equal(got, want)
        assert want.isfinite().all()
    for got, want in zip(diff_attention_weights(q1, q2, k, lam, **looked), maps, strict=True):
        assert torch.equal(got, want)
        assert want.isfinite().all()
