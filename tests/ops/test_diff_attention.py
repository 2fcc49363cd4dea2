"""The operator against loops, one backend against the other, and the inputs that public implementations get wrong."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from diffattn.ops import diff_attention, diff_attention_weights, softmax_attention
from oracle import loop_attention, rules

BACKENDS = ("reference", "sdpa")


def make(B=2, H=4, Hn=None, Hkv=2, Tq=5, Tk=None, D=8, pair=False, Dv=None, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    Hn, Tk, Dv = Hn or H, Tk or Tq, Dv or (2 * D if pair else D)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    lam = torch.randn(B, H, Tq, generator=generator, dtype=torch.float64)
    return draw(B, H, Tq, D), draw(B, Hn, Tq, D), draw(B, Hkv, Tk, 2 * D if pair else D), draw(B, Hkv, Tk, Dv), lam


SHAPES = {
    "v2": {},
    "v2 grouped": {"H": 8, "Hkv": 2},
    "v2 one kv head": {"H": 3, "Hkv": 1},
    "v1": {"pair": True},
    "v1 three kv heads": {"H": 6, "Hkv": 3, "pair": True},
    "v1 one key pair": {"H": 2, "Hkv": 1, "pair": True},
    "grouped noise": {"H": 8, "Hn": 4, "Hkv": 2, "pair": True},
    "few queries": {"Tq": 3, "Tk": 7},
    "few queries v1": {"Tq": 3, "Tk": 7, "pair": True, "H": 4, "Hkv": 1},
    "one query": {"Tq": 1, "Tk": 9, "H": 8, "Hn": 4, "Hkv": 2},
    "more queries than keys": {"Tq": 7, "Tk": 3},
    "wide values": {"D": 4, "Dv": 11},
    "narrow values": {"D": 8, "Dv": 3},
    "pair of keys, narrow values": {"pair": True, "Dv": 8},
}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_equals_loop(backend, shape, causal):
    x = make(**SHAPES[shape])
    expected = loop_attention(*x, rules(x[0].shape[2], x[2].shape[2], causal=causal))
    error = (diff_attention(*x, causal=causal, backend=backend) - expected).norm() / expected.norm()
    assert error < 1e-12


RESTRICTIONS = {
    "causal window": {"window": 2},
    "two-sided window": {"causal": False, "window": (1, 2)},
    "key padding": {"mask": torch.tensor([[1, 1, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1]]).bool()},
    "key padding, all seen": {"causal": False, "mask": torch.tensor([[1, 1, 0, 1, 1, 0], [0, 0, 1, 1, 1, 1]]).bool()},
    "mask a head": {"mask": torch.rand(2, 4, 5, 6, generator=torch.Generator().manual_seed(1)) > 0.4},
    "mask a query": {"causal": False, "mask": torch.rand(1, 1, 5, 6, generator=torch.Generator().manual_seed(2)) > 0.4},
    "blind batch row": {"mask": torch.tensor([False, True])[:, None, None, None].expand(2, 1, 5, 6)},
    "lengths": {"k_lengths": torch.tensor([6, 3])},
    "equal lengths": {"k_lengths": torch.tensor([4, 4])},
    "length 0": {"k_lengths": torch.tensor([0, 5])},
    "lengths, all seen": {"causal": False, "k_lengths": torch.tensor([6, 3])},
    "segments": {
        "segment_ids": (torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]]), torch.tensor([[0] * 3 + [1] * 3] * 2))
    },
    "all at once": {
        "window": 4,
        "k_lengths": torch.tensor([6, 5]),
        "mask": torch.rand(2, 4, 5, 6, generator=torch.Generator().manual_seed(3)) > 0.3,
        "segment_ids": (torch.zeros(2, 5, dtype=torch.long), torch.tensor([[1] + [0] * 5] * 2)),
    },
}


@pytest.mark.parametrize("Hn", [4, 2])
@pytest.mark.parametrize("name", RESTRICTIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_restrictions_equal_loop(backend, name, Hn):
    x = make(Tq=5, Tk=6, Hn=Hn)
    expected = loop_attention(*x, rules(5, 6, **RESTRICTIONS[name]))
    result = diff_attention(*x, backend=backend, **RESTRICTIONS[name])
    assert (result - expected).norm() / expected.norm() < 1e-12


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_query_with_lengths_and_padding(backend):
    x = make(Tq=1, Tk=6)
    given_ = {"k_lengths": torch.tensor([6, 4]), "mask": torch.tensor([[0, 1, 1, 1, 1, 1]] * 2).bool()}
    expected = loop_attention(*x, rules(1, 6, **given_))
    assert (diff_attention(*x, backend=backend, **given_) - expected).norm() / expected.norm() < 1e-12


@pytest.mark.parametrize("lam", [0, 0.8, -1.5, torch.tensor(0.3), torch.rand(1, 4, 1), torch.rand(2, 1, 5)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_lam_of_every_shape(backend, lam):
    q1, q2, k, v, _ = make()
    expected = loop_attention(q1, q2, k, v, lam, rules(5, 5))
    assert (diff_attention(q1, q2, k, v, lam, backend=backend) - expected).norm() / expected.norm() < 1e-12


def gradients(x, restrictions, backend, grad):
    leaves = [t.detach().clone().requires_grad_() for t in x]
    out = diff_attention(*leaves, backend=backend, **restrictions)
    return out.detach(), torch.autograd.grad(out, leaves, grad.to(out.dtype))


def scales(x, restrictions, grad):
    """What errors are measured against: ||A1||V|| + ||lam A2||V||, and for gradients the sum of each map's own."""
    q1, q2, k, v, lam = (t.double() for t in x)
    sizes = [diff_attention(q1, q2, k, v.abs(), 0.0, backend="reference", **restrictions)]
    sizes.append(diff_attention(q1, q2, k, v.abs(), lam, backend="reference", **restrictions) - sizes[0])
    both = gradients((q1, q2, k, v, lam), restrictions, "reference", grad)[1]
    signal = gradients((q1, q2, k, v, torch.zeros_like(lam)), restrictions, "reference", grad)[1]
    contributions = [s.norm() + (a - s).norm() for a, s in zip(both[:4], signal[:4], strict=True)]
    return sizes[0].norm() + sizes[1].norm(), [*contributions, both[4].norm()]


GRADIENT_CASES = {
    "causal v2": ({"Tq": 65, "D": 32, "H": 8}, {}),
    "causal v1": ({"Tq": 130, "D": 16, "pair": True}, {}),
    "decode": ({"Tq": 1, "Tk": 300, "D": 32, "H": 8}, {}),
    "rectangle v2": ({"Tq": 37, "Tk": 100, "D": 32, "H": 8}, {}),
    "rectangle v1": ({"Tq": 37, "Tk": 100, "D": 16, "pair": True, "H": 4, "Hkv": 1}, {}),
    "grouped noise": ({"Tq": 40, "H": 8, "Hn": 4, "pair": True}, {}),
    "blind rows": ({"Tq": 50, "Tk": 20}, {}),
    "all seen": ({"Tq": 33, "Tk": 50}, {"causal": False}),
    "wide values": ({"Tq": 33, "Dv": 20}, {}),
    "padding": ({"Tq": 40}, {"mask": torch.arange(40) >= torch.tensor([[0], [11]])}),
    "lengths": ({"Tq": 9, "Tk": 40}, {"k_lengths": torch.tensor([40, 22])}),
    "window": ({"Tq": 70}, {"window": 16}),
}


@pytest.mark.parametrize("case", GRADIENT_CASES)
def test_sdpa_equals_reference_in_float32(case):
    shape, restrictions = GRADIENT_CASES[case]
    x = make(**shape, dtype=torch.float32, seed=4)
    grad = torch.randn(*x[0].shape[:3], x[3].shape[3], generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    exact, exact_grads = gradients([t.double() for t in x], restrictions, "reference", grad)
    out, grads = gradients(x, restrictions, "sdpa", grad)
    out_scale, grad_scales = scales(x, restrictions, grad)
    assert (out - exact).norm() / out_scale < 2e-6
    for got, want, scale in zip(grads, exact_grads, grad_scales, strict=True):
        assert (got - want).norm() <= 5e-6 * scale


@pytest.mark.parametrize("case", ["causal v2", "decode", "rectangle v2", "grouped noise", "all seen"])
def test_gradients_equal_finite_differences(case):
    shape, restrictions = GRADIENT_CASES[case]
    small = {**shape, "Tq": min(shape["Tq"], 3), "Tk": min(shape.get("Tk", shape["Tq"]), 5), "D": 4, "B": 1}
    small["Tk"] = small["Tq"] if "Tk" not in shape else small["Tk"]
    leaves = [t.requires_grad_() for t in make(**small)]
    for backend in BACKENDS:
        assert torch.autograd.gradcheck(lambda *a, b=backend: diff_attention(*a, backend=b, **restrictions), leaves)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", ["causal v2", "causal v1", "decode", "rectangle v2", "padding"])
def test_bfloat16_at_most_twice_the_error_of_softmax(case, backend):
    shape, restrictions = GRADIENT_CASES[case]
    x = make(**shape, dtype=torch.bfloat16, seed=6)
    q1, q2, k, v, lam = (t.double() for t in x)
    exact = diff_attention(q1, q2, k, v, lam, backend="reference", **restrictions)
    size = diff_attention(q1, q2, k, v.abs(), 0.0, backend="reference", **restrictions)
    noise = diff_attention(q1, q2, k, v.abs(), lam, backend="reference", **restrictions) - size
    ours = diff_attention(*x, backend=backend, **restrictions).double()
    key = x[2][..., : x[0].shape[3]].contiguous()
    softmax = softmax_attention(x[0], key, x[3], **restrictions).double()
    exact_softmax = diff_attention(q1, q1, key.double(), v, 0.0, backend="reference", **restrictions)
    softmax_error = (softmax - exact_softmax).norm() / size.norm()
    assert 0 < (ours - exact).norm() / (size.norm() + noise.norm()) <= 2 * softmax_error


def test_reference_keeps_a_small_difference_in_bfloat16():
    """Two branches 1e-3 apart: rounding each before the subtraction loses it (173 % error in public code)."""
    q1, _, k, v, _ = make(Tq=64, D=32, dtype=torch.bfloat16)
    q2 = (q1.float() * 1.004).bfloat16()
    exact = diff_attention(*(t.double() for t in (q1, q2, k, v)), 1.0, backend="reference")
    result = diff_attention(q1, q2, k, v, 1.0, backend="reference").double()
    assert (result - exact).norm() / exact.norm() < 2**-8
    branch = diff_attention(*(t.double() for t in (q1, q2, k, v)), 0.0, backend="reference")
    fused = diff_attention(q1, q2, k, v, 1.0, backend="sdpa").double()
    assert (fused - exact).norm() < 2 * 2**-8 * 2 * branch.norm()


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_maps_cancel_exactly(backend):
    q1, _, k, v, _ = make(Tq=40, dtype=torch.float32)
    assert diff_attention(q1, q1, k, v, 1.0, backend=backend).abs().max() == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["mask", "k_lengths", "equal lengths", "window"])
def test_nan_in_unseen_keys_reaches_nothing(kind, backend):
    x = [t.requires_grad_() for t in make(Tq=5, Tk=8)]
    given_ = {
        "mask": {"mask": (torch.arange(8) < 6).expand(2, 8), "causal": False},
        "k_lengths": {"k_lengths": torch.tensor([6, 5])},
        "equal lengths": {"k_lengths": torch.tensor([6, 6])},
        "window": {"window": 2, "mask": (torch.arange(8) < 6).expand(2, 8)},
    }[kind]
    unseen = {"window": slice(0, 2)}.get(kind, slice(6, 8))
    clean = diff_attention(*x, backend=backend, **given_)
    clean_grads = torch.autograd.grad(clean.square().sum(), x)
    bad = [t.detach().clone().requires_grad_() for t in x]
    with torch.no_grad():
        bad[2][:, :, unseen], bad[3][:, :, unseen] = float("nan"), float("inf")
    result = diff_attention(*bad, backend=backend, **given_)
    torch.testing.assert_close(result, clean)
    for got, want in zip(torch.autograd.grad(result.square().sum(), bad), clean_grads, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_blind_rows_give_zero_and_zero_gradient(backend):
    mask = torch.tensor([False, True])[:, None, None, None].expand(2, 1, 10, 10)
    x = [t.requires_grad_() for t in make(Tq=10)]
    out = diff_attention(*x, mask=mask, backend=backend)
    grads = torch.autograd.grad(out.sum(), x)
    assert out[0].abs().max() == 0
    assert out[1].abs().max() > 0
    for grad in grads:
        assert grad[0].abs().max() == 0
        assert grad.isfinite().all()


def test_weights_are_the_signed_map():
    q1, q2, k, v, lam = make(Tq=4, Tk=6)
    maps = diff_attention_weights(q1, q2, k, lam)
    torch.testing.assert_close(maps.signed.sum(-1), 1 - lam)
    torch.testing.assert_close(maps.signal.sum(-1), torch.ones(2, 4, 4, dtype=torch.float64))
    torch.testing.assert_close(maps.signed, maps.signal - lam[..., None] * maps.noise)
    expanded = v.repeat_interleave(2, dim=1)
    torch.testing.assert_close(maps.signed @ expanded, diff_attention(q1, q2, k, v, lam))


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_drops_each_map_before_the_subtraction(backend):
    x = make(B=1, H=2, Hn=1, Hkv=1, Tq=4, Tk=600, D=4)
    torch.manual_seed(0)
    first = diff_attention(*x, dropout_p=0.5, backend=backend)
    second = diff_attention(*x, dropout_p=0.5, backend=backend)
    torch.manual_seed(0)
    assert torch.equal(first, diff_attention(*x, dropout_p=0.5, backend=backend))
    assert not torch.equal(first, second)
    mean = torch.stack([diff_attention(*x, dropout_p=0.5, backend=backend) for _ in range(600)])
    exact, spread = diff_attention(*x, backend=backend), mean.std(0) / 600**0.5
    assert ((mean.mean(0) - exact).abs() < 5 * spread).all()


@pytest.mark.parametrize("arguments", [{}, {"causal": False}, {"window": 3}, {"k_lengths": torch.tensor([9, 4])}])
def test_softmax_attention_is_the_operator_without_its_noise(arguments):
    q1, q2, k, v, _ = make(Tq=6, Tk=9, H=4, Hkv=2)
    expected = loop_attention(q1, q2, k, v, 0.0, rules(6, 9, **arguments))
    torch.testing.assert_close(softmax_attention(q1, k, v, **arguments), expected)


def test_softmax_attention_is_torchs():
    q1, _, k, v, _ = make(Tq=6, H=4, Hkv=2)
    torch.testing.assert_close(
        softmax_attention(q1, k, v), F.scaled_dot_product_attention(q1, k, v, is_causal=True, enable_gqa=True)
    )


@pytest.mark.parametrize("case", ["causal v2", "rectangle v2", "rectangle v1", "decode", "padding"])
def test_strided_inputs(case):
    """Keys stored the other way round, as some caches have them, and queries with gaps."""
    shape, restrictions = GRADIENT_CASES[case]
    plain = make(**shape)
    turned = [t.transpose(-1, -2).contiguous().transpose(-1, -2) for t in plain[:4]]
    gaps = [torch.stack((t, t), dim=-1)[..., 0] for t in plain[:4]]
    grad = torch.randn(*plain[0].shape[:3], plain[3].shape[3], dtype=torch.float64)
    expected, expected_grads = gradients(plain, restrictions, "reference", grad)
    for strided in (turned, gaps):
        leaves = [t.detach().requires_grad_() for t in (*strided, plain[4])]
        assert leaves[2].stride(-1) != 1
        out = diff_attention(*leaves, backend="sdpa", **restrictions)
        torch.testing.assert_close(out, expected)
        for got, want in zip(torch.autograd.grad(out, leaves, grad), expected_grads, strict=True):
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("heads", [16, 64])
@pytest.mark.parametrize("case", ["square v2", "square v1", "rectangle", "mask"])
def test_bfloat16_gradients_of_shared_keys(case, heads):
    """Many query heads on one KV head: their gradients must be summed in float32."""
    shape = {"B": 1, "H": heads, "Hkv": 1, "Tq": 48, "D": 16, "pair": case == "square v1"}
    shape |= {"Tq": 24, "Tk": 48} if case == "rectangle" else {}
    restrictions = {"mask": torch.arange(48).expand(1, 48) > 3} if case == "mask" else {}
    x = make(**shape, dtype=torch.bfloat16, seed=8)
    grad = torch.randn(*x[0].shape[:3], x[3].shape[3], generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    _, exact = gradients([t.double() for t in x], restrictions, "reference", grad)
    _, got = gradients(x, restrictions, "sdpa", grad)
    _, sizes = scales(x, restrictions, grad)
    key = x[2][..., : x[0].shape[3]].contiguous()
    leaves = [t.detach().clone().requires_grad_() for t in (x[0], key, x[3])]
    wide = [t.detach().double().requires_grad_() for t in leaves]
    zeros = torch.zeros_like(x[4])
    soft = torch.autograd.grad(softmax_attention(*leaves, **restrictions), leaves, grad.bfloat16())
    exact_soft = torch.autograd.grad(
        diff_attention(wide[0], wide[0], *wide[1:], zeros, backend="reference", **restrictions), wide, grad
    )
    for got_g, exact_g, size, s, e in zip(got[2:4], exact[2:4], sizes[2:4], soft[1:], exact_soft[1:], strict=True):
        assert (got_g.double() - exact_g).norm() / size <= 2 * (s.double() - e).norm() / e.norm()
        assert (got_g.double() - exact_g).norm() / size < 2**-8 * 1.5


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_are_bounded_by_the_keys(backend):
    x = make(Tq=1, Tk=9)
    expected = loop_attention(*x, rules(1, 9, causal=False, window=(2, 2)))
    result = diff_attention(*x, causal=False, window=(2, 2), k_lengths=torch.tensor([11, 11]), backend=backend)
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("shape", [{"Tk": 0, "Tq": 3}, {"Tq": 0, "Tk": 3}, {"k_lengths": torch.tensor([0, 0])}])
@pytest.mark.parametrize("backend", BACKENDS)
def test_where_nothing_is_seen_gradients_are_zero(backend, shape):
    lengths = {"k_lengths": shape["k_lengths"]} if "k_lengths" in shape else {}
    x = make(Tq=shape.get("Tq", 3), Tk=3)
    x = [x[0], x[1], x[2][:, :, : shape.get("Tk", 3)], x[3][:, :, : shape.get("Tk", 3)], x[4]]
    leaves = [t.detach().clone().requires_grad_() for t in x]
    out = diff_attention(*leaves, backend=backend, **lengths)
    for grad in torch.autograd.grad(out.sum(), leaves):
        assert not grad.any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_in_the_query_of_a_blind_row_reaches_no_gradient(backend):
    """Left padding: what stands in the padded positions is seen by nobody and sees nothing."""
    x = make(Tq=6)
    for t in x[:4]:
        t[0, :, :2] = float("nan")
    leaves = [t.requires_grad_() for t in x]
    mask = torch.arange(6) >= torch.tensor([[2], [0]])
    out = diff_attention(*leaves, mask=mask, backend=backend)
    assert out.isfinite().all()
    for grad in torch.autograd.grad(out.square().sum(), leaves):
        assert grad.isfinite().all()


@pytest.mark.parametrize(
    "given_",
    [
        {"mask": torch.tensor([[False, True, False, True, True, True]] * 2)},
        {"mask": torch.tensor([[False, True, True, True, True, True]] * 2)},
        {"mask": torch.arange(6)[None, None, :, None] > torch.zeros(2, 1, 1, 6)},
        {"k_lengths": torch.tensor([5, 4])},
        {"segment_ids": (torch.tensor([[9, 0, 1, 0, 1, 1]] * 2), torch.tensor([[0, 1, 0, 1, 0, 1]] * 2))},
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_that_comes_back_for_a_blind_row_reaches_no_query_key_or_value(backend, given_):
    """A row of zeros divided by its norm, say, though the row stands in no loss."""
    x = [t.requires_grad_() for t in make(Tq=6)[:4]]
    out = diff_attention(*x, 0.5, backend=backend, **given_)
    assert out[:, :, 0].abs().max() == 0
    (out / out.norm(dim=-1, keepdim=True))[:, :, 3:].sum().backward()
    assert all(t.grad.isfinite().all() for t in x)
    assert all(t.grad[:, :, 0].abs().max() == 0 for t in x[:2])


@pytest.mark.parametrize("restrictions", [{}, {"window": 5}, {"mask": torch.arange(20) >= torch.tensor([[0], [3]])}])
@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_takes_the_inputs_as_torchs_attention_does(backend, restrictions):
    """Queries and keys in float32 (from a rotary embedding), values narrow: one dtype, and float32 inside."""
    q1, q2, k, v, lam = make(Tq=20, dtype=torch.float32)
    expected = diff_attention(*(t.bfloat16() for t in (q1, q2, k, v)), lam, backend=backend, **restrictions)
    leaves = [t.requires_grad_() for t in (q1, q2, k, v)]
    with torch.autocast("cpu", torch.bfloat16):
        out = diff_attention(q1, q2, k, v.bfloat16(), lam, backend=backend, **restrictions)
        assert out.dtype == F.scaled_dot_product_attention(q1, q1, q1).dtype == torch.bfloat16
        assert diff_attention_weights(q1, q2, k, lam).signed.dtype == torch.float32
        assert softmax_attention(q1, k, v).dtype == torch.bfloat16
        wide = diff_attention(*(t.double() for t in (q1, q2, k, v)), lam, backend=backend, **restrictions)
    assert torch.equal(out, expected)
    assert wide.dtype == torch.float64
    assert all(grad.dtype == torch.float32 for grad in torch.autograd.grad(out.sum(), leaves))


def test_a_second_derivative_is_refused_where_it_would_be_dropped():
    x = [t.requires_grad_() for t in make(Tq=3, Tk=7)]
    first = torch.autograd.grad(diff_attention(*x, backend="sdpa").square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="use backend='reference'"):
        torch.autograd.grad(sum(grad.sum() for grad in first), x)
    first = torch.autograd.grad(diff_attention(*x, backend="reference").sum(), x, create_graph=True)
    assert all(grad.requires_grad for grad in first)
