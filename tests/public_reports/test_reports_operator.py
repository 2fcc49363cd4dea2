"""Inputs that public implementations get wrong, one test each: the operator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from diffattn.ops import diff_attention, diff_attention_weights, softmax_attention
from oracle import loop_attention, rules

every_backend = pytest.mark.parametrize("backend", ["reference", "sdpa"])
needs_linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's peak memory counter")


def inputs(B=2, H=4, Hkv=2, Tq=6, Tk=None, D=8, pair=False, dtype=torch.float64, lam=True):
    """q1, q2, k, v and lam, the same at each call; `pair` gives V1's keys and values of twice the width."""
    generator = torch.Generator().manual_seed(0)
    width, Tk = (2 * D if pair else D), Tk or Tq
    shapes = [(B, H, Tq, D), (B, H, Tq, D), (B, Hkv, Tk, width), (B, Hkv, Tk, width), (B, H, Tq)]
    drawn = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [t.to(dtype) for t in drawn] if lam else [t.to(dtype) for t in drawn[:4]]


def with_gradients(x, **arguments):
    leaves = [t.detach().clone().requires_grad_() for t in x]
    out = diff_attention(*leaves, **arguments)
    return out.detach(), torch.autograd.grad(out.square().sum(), leaves)


def assert_equals(result, expected):
    """In float64: rounding is 1e-15 of the values' size, anything wrong is many orders above this."""
    torch.testing.assert_close(result, expected, rtol=1e-11, atol=1e-12)


@every_backend
def test_batch_row_that_may_see_nothing_gives_zero_and_zero_gradient(backend):
    """Bool mask [2, 1, 10, 10] with the first batch row all False; timm gives 0 or NaN by path."""
    x = inputs(Tq=10)
    mask = torch.ones(2, 1, 10, 10, dtype=torch.bool)
    mask[0] = False
    out, grads = with_gradients(x, mask=mask, backend=backend)
    assert not out[0].any()
    assert all(not grad[0].any() and grad[1].any() and grad.isfinite().all() for grad in grads)
    assert_equals(out, loop_attention(*x, rules(10, 10, mask=mask)))


@every_backend
@pytest.mark.parametrize("causal", [True, False])
def test_mask_a_head_alone_and_with_causal(causal, backend):
    """Mask [B, H, T, T], alone and together with causal; timm takes it on one path only."""
    x = inputs()
    mask = torch.rand(2, 4, 6, 6, generator=torch.Generator().manual_seed(1)) > 0.4
    expected = loop_attention(*x, rules(6, 6, causal=causal, mask=mask))
    assert_equals(diff_attention(*x, causal=causal, mask=mask, backend=backend), expected)


@every_backend
@pytest.mark.parametrize("pair", [False, True], ids=["v2", "v1"])
def test_causal_with_fewer_queries_than_keys_is_the_lower_right_triangle(pair, backend):
    """Tq = 3, Tk = 7, causal; reported of coda-gqa-l, and torch's own `is_causal` takes the upper left corner."""
    x = inputs(Tq=3, Tk=7, pair=pair)
    triangle = torch.ones(1, 1, 3, 7).tril(4).bool()
    expected = loop_attention(*x, rules(3, 7, causal=False, mask=triangle))
    assert_equals(diff_attention(*x, backend=backend), expected)


@every_backend
@pytest.mark.parametrize("causal", [True, False])
def test_nan_in_padded_keys_and_values_reaches_no_row_and_no_gradient(causal, backend):
    """NaN keys and values where the padding mask is False; reported as pytorch issue 101967."""
    x = inputs(Tq=6)
    mask = torch.tensor([[1, 1, 0, 1, 1, 1], [0, 1, 1, 1, 0, 0]]).bool()
    given = {"mask": mask, "causal": causal}
    clean, clean_grads = with_gradients(x, backend=backend, **given)
    for t in x[2:4]:
        t.masked_fill_(~mask[:, None, :, None], float("nan"))
    out, grads = with_gradients(x, backend=backend, **given)
    assert_equals(out, clean)
    for got, want in zip(grads, clean_grads, strict=True):
        assert_equals(got, want)
    x[2:4] = [t.nan_to_num() for t in x[2:4]]
    assert_equals(out, loop_attention(*x, rules(6, 6, **given)))


def test_33_query_heads_on_2_key_value_heads_are_refused_by_name():
    """Hq 33, Hkv 2; reported as flash-linear-attention issue 1029."""
    q, k = torch.randn(1, 33, 4, 8), torch.randn(1, 2, 4, 8)
    calls = [
        lambda: diff_attention(q, q, k, k, 0.5),
        lambda: diff_attention_weights(q, q, k, 0.5),
        lambda: softmax_attention(q, k, k),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"^k: (?=.*\b33\b)(?=.*\b2\b)"):
            call()


def near_branches():
    """bfloat16 inputs whose branches differ by 1e-3 of their size, the exact difference, and ||A1||V|| + ||A2||V||."""
    q1, _, k, v = inputs(Tq=64, D=32, dtype=torch.bfloat16, lam=False)
    q2 = q1.clone()
    q2[..., :2] *= 1.004  # one step of bfloat16 in 2 of 32 channels
    wide = [t.double() for t in (q1, q2, k, v)]
    exact = diff_attention(*wide, 1.0, backend="reference")
    branch = diff_attention(*wide, 0.0, backend="reference")
    assert 0.7e-3 < exact.norm() / branch.norm() < 1.4e-3
    sizes = [diff_attention(q, q, wide[2], wide[3].abs(), 0.0, backend="reference").norm() for q in wide[:2]]
    return (q1, q2, k, v), exact, sizes[0] + sizes[1]


def test_difference_of_near_branches_is_rounded_once_by_the_reference():
    """Two branches 1e-3 apart, bfloat16; every public implementation rounds both first: 173 % error."""
    x, exact, size = near_branches()
    error = diff_attention(*x, 1.0, backend="reference").double() - exact
    assert error.norm() <= 2**-8 * exact.norm() + 2**-22 * size  # one rounding, and float32's before it


def test_difference_of_near_branches_keeps_to_the_rounding_of_the_branches_elsewhere():
    """The same on torch's kernel, which rounds each branch: an error of bfloat16's, of the branches' own size."""
    x, exact, size = near_branches()
    assert (diff_attention(*x, 1.0, backend="sdpa").double() - exact).norm() <= 2**-8 * size


@every_backend
def test_window_of_4_over_10_tokens_shows_row_i_the_keys_from_i_minus_3(backend):
    """Window 4 over 10 tokens, whole, and in decoding from the last four keys alone."""
    x = inputs(Tq=10)
    band = torch.ones(1, 1, 10, 10).tril().triu(-3).bool()
    expected = loop_attention(*x, rules(10, 10, causal=False, mask=band))
    assert_equals(diff_attention(*x, window=4, backend=backend), expected)
    weights = diff_attention_weights(*x[:3], x[4], window=4).signed
    assert torch.equal(weights != 0, band.expand_as(weights))
    q1, q2, k, v, lam = x
    for i in range(10):
        held = slice(max(0, i - 3), i + 1)
        row = [t[:, :, i : i + 1] for t in (q1, q2)], [t[:, :, held] for t in (k, v)]
        assert_equals(
            diff_attention(*row[0], *row[1], lam[:, :, i : i + 1], backend=backend), expected[:, :, i : i + 1]
        )


def peak_growth(call):
    """Bytes by which this process's resident memory rose at most while `call` ran."""
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_memory()
    call()
    return peak_memory() - before


def peak_memory():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def long_inputs(**shape):
    x = [t.requires_grad_() for t in inputs(B=1, H=16, Hkv=1, D=8, dtype=torch.float32, **shape)]
    diff_attention(*(t[:, :, :64] for t in x)).sum().backward()  # what torch sets up at its first call does not count
    return x


@needs_linux
@pytest.mark.parametrize("pair", [False, True], ids=["v2", "v1"])
def test_memory_at_8192_tokens_does_not_grow_with_the_square(pair):
    """T = 8,192, 16 heads, no mask, gradients recorded; reported as BlaGPT issue 1."""
    x = long_inputs(Tq=8192, pair=pair)
    assert peak_growth(lambda: diff_attention(*x)) < 8192**2  # bytes: not even one head's mask of bools


@needs_linux
def test_memory_of_gradients_at_8192_tokens_does_not_grow_with_the_square():
    """T = 8,192, 16 heads, no mask, forward and backward (V1's takes more); reported as BlaGPT issue 1."""
    x = long_inputs(Tq=8192, pair=True)
    assert peak_growth(lambda: diff_attention(*x).sum().backward()) < 4 * 8192**2  # not even one head's map


@needs_linux
def test_the_measure_of_memory_sees_a_matrix():
    """The same measure on the reference's explicit maps: at least one of float32 a head."""
    x = long_inputs(Tq=1024)
    assert peak_growth(lambda: diff_attention(*x, backend="reference")) > 16 * 4 * 1024**2


def test_weights_are_the_signed_map_whose_rows_sum_to_1_minus_lambda():
    """Attention weights asked for; Transformers' DiffLlama returns the raw maps of both halves."""
    q1, q2, k, _, lam = inputs(Tq=4, Tk=6, pair=True)
    signed = diff_attention_weights(q1, q2, k, lam).signed
    assert_equals(signed.sum(-1), 1 - lam)
    one_hot = torch.eye(6, dtype=torch.float64).expand(2, 2, 6, 6)
    assert_equals(signed, loop_attention(q1, q2, k, one_hot, lam, rules(4, 6)))


@every_backend
def test_bidirectional_with_key_padding(backend):
    """causal=False, one row padded on the left, one on the right; reported as Transformers issue 34146."""
    x = inputs(Tq=6)
    given = {"causal": False, "mask": torch.tensor([[False, False, True, True, True, True], [True] * 5 + [False]])}
    assert_equals(diff_attention(*x, backend=backend, **given), loop_attention(*x, rules(6, 6, **given)))


def test_lambda_of_shape_h_is_refused_where_h_equals_tq():
    """lam of shape [H] with Tq == H: broadcasting would take it for one a query."""
    q1, q2, k, v = inputs(H=6, Tq=6, lam=False)
    with pytest.raises(ValueError, match=r"^lam: expected .* got"):
        diff_attention(q1, q2, k, v, torch.rand(6, dtype=torch.float64))


@every_backend
def test_mask_of_two_dimensions_is_key_padding_where_b_equals_t(backend):
    """mask [B, T] with B == T: broadcasting would take it for one a query."""
    x = inputs(B=5, Tq=5)
    mask = torch.rand(5, 5, generator=torch.Generator().manual_seed(2)) > 0.4
    seen = mask[:, None, None, :] & torch.ones(1, 1, 5, 5).tril().bool()
    expected = loop_attention(*x, rules(5, 5, causal=False, mask=seen))
    assert_equals(diff_attention(*x, mask=mask, backend=backend), expected)


@every_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("Tq", [1, 7, 40])
def test_equal_maps_at_lambda_1_cancel_exactly(Tq, dtype, backend):
    """q2 = q1, k shared, lam 1: the result is 0, so errors are measured against the branches, never against it."""
    q, _, k, v = inputs(Tq=Tq, Tk=40, dtype=dtype, lam=False)
    out = diff_attention(q, q, k, v, 1.0, backend=backend)
    assert not out.any()
    wide = [t.double() for t in (q, k, v)]
    size = diff_attention(wide[0], *wide[:2], wide[2].abs(), 0.0, backend="reference").norm()
    exact = diff_attention(wide[0], *wide, 1.0, backend="reference")
    assert (out - exact).norm() / (2 * size) == 0
