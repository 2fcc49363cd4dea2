"""What `dropout_p` means: a weight of a map and output head is dropped before the subtraction, or divided by 1 - p.

With the unit matrix for values the output is the signed map itself, so that every drop can be read off it.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch

from diffattn.nn import DiffAttentionV1, DiffAttentionV2, GatedAttention, SoftmaxAttention
from diffattn.ops import diff_attention, diff_attention_weights, softmax_attention

N, H = 12, 4
each_backend = pytest.mark.parametrize("backend", ["reference", "sdpa"])
SIGHTS = {
    "causal": {},
    "all": {"causal": False},
    "window": {"window": 5},
    "lengths": {"k_lengths": torch.tensor([12, 7])},
    "left padding": {"mask": torch.arange(N) >= torch.tensor([[3], [0]])},
    "a mask a head": {"mask": torch.rand(2, H, N, N, generator=torch.Generator().manual_seed(1)) > 0.3},
    "documents": {"segment_ids": ((torch.arange(N) // 5).expand(2, N), (torch.arange(N) // 5).expand(2, N))},
}


def make(B=2, H=H, Hn=None, Hkv=2, Tq=N, Tk=N, D=N, pair=False, Dv=None):
    generator = torch.Generator().manual_seed(0)
    width = 2 * D if pair else D
    shapes = ((B, H, Tq, D), (B, Hn or H, Tq, D), (B, Hkv, Tk, width), (B, Hkv, Tk, Dv or width), (B, H, Tq))
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def seeded(function, seed=0):
    def call(*x):
        torch.manual_seed(seed)
        return function(*x)

    return call


def drops(x, p, backend, **sight):
    """Which weights of the signal and of the noise map were dropped, `[B, H, Tq, Tk]` each, and which are seen.

    Asserts that every entry of the signed map is one of the four that dropout may leave.
    """
    q1, q2, k, _, lam = x
    units = torch.eye(N, k.shape[3], dtype=k.dtype).expand(*k.shape[:3], -1)
    maps = diff_attention_weights(q1, q2, k, lam, **sight)
    got = seeded(partial(diff_attention, dropout_p=p, backend=backend, **sight))(q1, q2, k, units, lam)[..., :N]
    signal, noise = maps.signal / (1 - p), lam[..., None] * maps.noise / (1 - p)
    left = torch.stack((signal - noise, -noise, signal, torch.zeros_like(signal)))
    error, which = (left - got).abs().min(dim=0)
    assert error.max() < 1e-13
    return which % 2 == 1, which >= 2, maps.signal > 0


@pytest.mark.parametrize("pair", [False, True], ids=["one key", "key pair"])
@pytest.mark.parametrize("p", [0.25, 0.7])
@pytest.mark.parametrize("name", SIGHTS)
@each_backend
def test_each_map_is_dropped_on_its_own_before_the_subtraction(backend, name, p, pair):
    signal, noise, seen = drops(make(pair=pair), p, backend, **SIGHTS[name])
    count = int(seen.sum())
    for dropped, share in ((signal, p), (noise, p), (signal & noise, p * p)):
        rate = dropped[seen].double().mean()
        assert abs(rate - share) < 5 * (share * (1 - share) / count) ** 0.5


@pytest.mark.parametrize("Hn", [4, 2])
@pytest.mark.parametrize("sight", [{}, {"causal": False}, {"window": 8}])
@each_backend
def test_every_output_head_has_drops_of_its_own(backend, sight, Hn):
    """Those of two heads, maps or batch rows agree by chance alone, those of a noise head that both share too."""
    signal, noise, seen = drops(make(Hn=Hn), 0.5, backend, **sight)
    patterns = torch.cat((signal, noise)).flatten(0, 1)[:, seen[0, 0]]
    sure = 5 * 0.5 / patterns.shape[1] ** 0.5
    for i, one in enumerate(patterns):
        for other in patterns[:i]:
            assert abs((one == other).double().mean() - 0.5) < sure


@pytest.mark.parametrize("shape", [{}, {"pair": True}, {"Dv": 30}, {"Dv": 5}, {"pair": True, "Dv": 10}], ids=str)
@pytest.mark.parametrize("sight", [{}, {"window": 5}])
@each_backend
def test_a_dropped_weight_is_dropped_for_every_column_of_the_values(backend, sight, shape):
    q1, q2, k, v, lam = make(**shape)
    same = v[..., :1].expand(v.shape).contiguous()
    out = diff_attention(q1, q2, k, same, lam, dropout_p=0.5, backend=backend, **sight)
    torch.testing.assert_close(out, out[..., :1].expand(out.shape), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("sight", [{}, {"causal": False}, {"window": 5}])
def test_ordinary_attention_drops_too(sight):
    q1, _, k, _, _ = make()
    units = torch.eye(N, dtype=k.dtype).expand(k.shape)
    whole = softmax_attention(q1, k, units, **sight)
    got = softmax_attention(q1, k, units, dropout_p=0.5, **sight)
    assert torch.minimum(got.abs(), (got - 2 * whole).abs()).max() < 1e-13
    assert 0.3 < (got[whole > 0] == 0).double().mean() < 0.7


@pytest.mark.parametrize("name", SIGHTS)
@each_backend
def test_a_seed_gives_the_same_drops(backend, name):
    x, call = make(), partial(diff_attention, dropout_p=0.3, backend=backend, **SIGHTS[name])
    first, second = seeded(call)(*x), call(*x)
    assert torch.equal(first, seeded(call)(*x))
    assert not torch.equal(first, second)
    assert not torch.equal(first, seeded(call, seed=1)(*x))


@each_backend
def test_no_dropout_draws_nothing(backend):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    diff_attention(*make(), dropout_p=0.0, backend=backend)
    assert torch.equal(torch.get_rng_state(), before)


GRADIENT_CASES = {
    "square": ({}, {}),
    "rectangle": ({"Tq": 2, "Tk": 4}, {}),
    "decode": ({"Tq": 1, "Tk": 4}, {}),
    "blind rows": ({"Tq": 4, "Tk": 2}, {}),
    "window": ({"Tq": 4, "Tk": 4}, {"window": 2}),
    "padding": ({"Tq": 3, "Tk": 3}, {"mask": torch.tensor([[False, True, True]])}),
    "lengths": ({"Tq": 2, "Tk": 4}, {"k_lengths": torch.tensor([3])}),
    "key pair": ({"pair": True}, {}),
    "grouped noise": ({"Hn": 1}, {}),
    "wide values": ({"Dv": 5}, {}),
}


@pytest.mark.parametrize("case", GRADIENT_CASES)
@each_backend
def test_gradients_are_of_the_same_drops(backend, case):
    shape, sight = GRADIENT_CASES[case]
    x = make(**{"B": 1, "H": 2, "Hkv": 1, "Tq": 3, "Tk": 3, "D": 2, **shape})
    call = seeded(partial(diff_attention, dropout_p=0.4, backend=backend, **sight))
    assert torch.autograd.gradcheck(call, [t.requires_grad_() for t in x], fast_mode=True)


BLIND = {
    "more queries than keys": ({"Tk": 7}, {}, (slice(None), slice(0, 5))),
    "window": ({"Tk": 7}, {"window": 2}, (slice(None), slice(0, 5))),
    "lengths": ({}, {"k_lengths": torch.tensor([0, 12])}, (0, slice(None))),
    "padding": ({}, {"mask": torch.arange(N) >= torch.tensor([[4], [0]])}, (0, slice(0, 4))),
}


@pytest.mark.parametrize("case", BLIND)
@each_backend
def test_blind_rows_stay_0_and_what_nobody_sees_unread(backend, case):
    shape, sight, (rows, queries) = BLIND[case]
    x = make(**shape)
    if "mask" in sight:
        x[2][0, :, :4], x[3][0, :, :4] = float("nan"), float("inf")
    leaves = [t.requires_grad_() for t in x]
    out = diff_attention(*leaves, dropout_p=0.5, backend=backend, **sight)
    grads = torch.autograd.grad(out.square().sum(), leaves)
    assert all(t.isfinite().all() for t in (out, *grads))
    for blind in (out, grads[0], grads[1], grads[4]):
        assert not blind[rows, :, queries].any()
    assert out.any()


@pytest.mark.parametrize("shape", [{}, {"Hn": 1}, {"pair": True}, {"Tq": 1}, {"Dv": 7}], ids=str)
@pytest.mark.parametrize("sight", [{}, {"window": 3}, {"causal": False}])
@each_backend
def test_the_expectation_is_the_undropped_result(backend, sight, shape):
    sight = {"causal": False, "window": (3, 1)} if "causal" in sight else sight
    x, times = make(**{"B": 1, "H": 2, "Hkv": 1, "Tq": 5, "Tk": 6, "D": 4, **shape}), 2000
    torch.manual_seed(0)
    draws = diff_attention(*(t.expand(times, *t.shape[1:]) for t in x), dropout_p=0.4, backend=backend, **sight)
    error = (draws.mean(0) - diff_attention(*x, backend=backend, **sight)[0]).abs()
    assert (error <= 5 * draws.std(0) / times**0.5).all()
    assert draws.std(0).min() > 0


@pytest.mark.parametrize("kind", [SoftmaxAttention, GatedAttention, DiffAttentionV1, DiffAttentionV2])
def test_layers_drop_in_training_alone(kind):
    torch.manual_seed(0)
    layer, plain = (kind(16, 2, dropout=p, dtype=torch.float64) for p in (0.5, 0.0))
    plain.load_state_dict(layer.state_dict())
    hidden = torch.randn(2, 6, 16, dtype=torch.float64)
    assert not torch.equal(layer(hidden), layer(hidden))
    torch.testing.assert_close(layer.eval()(hidden), plain(hidden), rtol=0, atol=0)
    torch.testing.assert_close(plain.train()(hidden), plain.eval()(hidden), rtol=0, atol=0)
