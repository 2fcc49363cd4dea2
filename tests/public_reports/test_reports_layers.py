"""Inputs that public implementations get wrong, one test each: the layers."""

from __future__ import annotations

import pytest
import torch

from diffattn.nn import DiffAttentionV1, DiffAttentionV2, SoftmaxAttention
from oracle import loop_attention, rules

B, T, WIDTH = 1, 5, 32


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def unit_scale(kind, *args, **kwargs):
    """A layer without positions, in float64, that makes queries, keys and values of unit scale from unit inputs."""
    layer = kind(WIDTH, *args, rope_base=None, dtype=torch.float64, **kwargs)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "proj" in name:
                parameter.normal_(std=WIDTH**-0.5)
    return layer, torch.randn(B, T, WIDTH, dtype=torch.float64)


def maps(projection, x, width):
    """`[B, heads, T, width]` of a projection's rows, in their order."""
    return projection(x).unflatten(-1, (-1, width)).transpose(1, 2)


def v1_by_hand(layer, x, key_of):
    """V1 in loops; `key_of(head, branch)` is the key that a query map uses."""
    d, repeat = layer.map_dim, layer.num_heads // layer.num_kv_heads
    q, k, v = maps(layer.q_proj, x, d), maps(layer.k_proj, x, d), maps(layer.v_proj, x, 2 * d)
    lam = torch.exp(layer.lambda_q1 @ layer.lambda_k1) - torch.exp(layer.lambda_q2 @ layer.lambda_k2)
    heads = []
    for h in range(layer.num_heads):
        key = torch.cat([k[:, key_of(h, branch)] for branch in (0, 1)], dim=-1)[:, None]
        value = v[:, h // repeat][:, None]
        query = q[:, 2 * h : 2 * h + 1], q[:, 2 * h + 1 : 2 * h + 2]
        heads.append(loop_attention(*query, key, value, lam + layer.lambda_init, rules(T, T)))
    context = torch.cat(heads, dim=1).transpose(1, 2)
    normed = context * (context.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * (1 - layer.lambda_init)
    return layer.o_proj(normed.flatten(2))


def test_v1_flash_rule_differs_from_plain_rule():
    """V1, 4 heads, 2 KV heads, both of unilm's rules on the same weights: two different models, ours the flash one."""
    layer, x = unit_scale(DiffAttentionV1, 4, 2)
    flash = v1_by_hand(layer, x, lambda h, branch: 2 * (h // 2) + branch)
    plain = v1_by_hand(layer, x, lambda h, branch: (2 * h + branch) // 2)  # each key repeated for adjacent query maps
    torch.testing.assert_close(layer(x), flash, rtol=1e-10, atol=1e-11)
    assert (plain - flash).norm() > 0.5 * flash.norm()
    assert (plain - flash).abs().max() > 1


def test_v2_adjacent_pairs_differ_from_front_and_back():
    """V2, 8 heads, 2 KV heads, front half paired with back half: the error that unilm's V2 README warns of."""
    layer, x = unit_scale(DiffAttentionV2, 8, 2)
    d = layer.map_dim
    q, k, v = (maps(projection, x, d) for projection in (layer.q_proj, layer.k_proj, layer.v_proj))
    physical = loop_attention(q, q, k, v, 0.0, rules(T, T))  # 16 query heads, 8 on each KV head
    lam = torch.sigmoid(layer.lambda_proj(x)).transpose(1, 2)[..., None]

    def output(signal, noise):
        return layer.o_proj((signal - lam * noise).transpose(1, 2).flatten(2))

    adjacent = output(physical[:, 0::2], physical[:, 1::2])
    halves = output(physical[:, :8], physical[:, 8:])
    torch.testing.assert_close(layer(x), adjacent, rtol=1e-10, atol=1e-11)
    assert (halves - adjacent).norm() > 0.5 * adjacent.norm()
    assert (halves - adjacent).abs().max() > 1


@pytest.mark.parametrize(
    ("dtype", "dot"), [(torch.float16, 16 * 0.9**2), (torch.bfloat16, 192), (torch.float32, 192), (torch.float64, 800)]
)
def test_lambda_whose_exponentials_overflow_stays_lambda_init(dtype, dot):
    """lq = lk = 0.9, d = 16, in float16, and lq.lk = 192 in bfloat16 and float32: infinity in public code."""
    layer = DiffAttentionV1(WIDTH, 2, map_dim=16, dtype=dtype)
    fixed = DiffAttentionV1(WIDTH, 2, map_dim=16, dtype=dtype, lambda_granularity="fixed")
    fixed.load_state_dict(layer.state_dict(), strict=False)
    with torch.no_grad():
        for name in layer.VECTORS:
            layer.get_parameter(name).fill_((dot / 16) ** 0.5)
    x = torch.randn(B, T, WIDTH, dtype=dtype)
    out = layer(x)
    out.float().square().sum().backward()
    torch.testing.assert_close(out, fixed(x))  # the two exponentials are equal: only lambda_init is left
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_lambda_of_one_exponential_that_overflows_is_finite():
    """lq1.lk1 = 192 and lq2.lk2 = 0, so that nothing cancels; infinity in public code."""
    layer = DiffAttentionV1(WIDTH, 2, map_dim=16)
    with torch.no_grad():
        for name in layer.VECTORS:
            layer.get_parameter(name).fill_(12**0.5 if "1" in name else 0.0)
    out = layer(torch.randn(B, T, WIDTH))
    out.square().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_v2_works_with_any_number_of_kv_heads_that_divides(kv_heads):
    """One KV head, three KV heads; Transformers' DiffLlama refuses both."""
    layer, x = unit_scale(DiffAttentionV2, 6, kv_heads, map_dim=8)
    q, k, v = (maps(projection, x, 8) for projection in (layer.q_proj, layer.k_proj, layer.v_proj))
    lam = torch.sigmoid(layer.lambda_proj(x)).transpose(1, 2)
    context = loop_attention(q[:, 0::2], q[:, 1::2], k, v, lam, rules(T, T))
    torch.testing.assert_close(layer(x), layer.o_proj(context.transpose(1, 2).flatten(2)), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (4, 1), (3, 3)])
def test_v1_works_with_one_key_pair(heads, kv_heads):
    """V1 with one key pair, or three; Transformers' DiffLlama refuses both."""
    layer, x = unit_scale(DiffAttentionV1, heads, kv_heads, map_dim=4)
    expected = v1_by_hand(layer, x, lambda h, branch: 2 * (h // (heads // kv_heads)) + branch)
    torch.testing.assert_close(layer(x), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", [DiffAttentionV1, DiffAttentionV2])
def test_meta_device_then_to_empty_then_reset_parameters(kind):
    """device("meta"), to_empty, reset_parameters; reported of Transformers, timm, dinov2 issue 476."""
    with torch.device("meta"):
        layer = kind(WIDTH, 2, 1, qk_norm=True)
    assert all(p.is_meta for p in layer.parameters())
    layer.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*layer.parameters(), *layer.buffers()):
            tensor.fill_(float("nan"))  # what empty memory may hold
    layer.reset_parameters()
    assert all(p.isfinite().all() for p in layer.parameters())
    assert layer(torch.randn(B, T, WIDTH)).isfinite().all()
    if kind is DiffAttentionV1:
        assert 0 < abs(layer.lambda_value().item() - layer.lambda_init) < 1


@pytest.mark.parametrize("kind", [SoftmaxAttention, DiffAttentionV1, DiffAttentionV2])
def test_width_36_with_4_heads_is_refused_when_built(kind):
    """Width 36, 4 heads: timm builds it and fails in a reshape at the first forward."""
    said = r"^hidden_size: 36 .* 8 " if kind is DiffAttentionV1 else r"^map_dim: .* even .* 9$"
    with pytest.raises(ValueError, match=said):
        kind(36, 4)


def test_width_768_of_12_baseline_heads_as_v1():
    """Width 768, 12 baseline heads as V1: maps of 64, 6 heads, values of 128; nanoGPT issue 567 halves twice."""
    layer = DiffAttentionV1(768, 6)
    assert (layer.map_dim, layer.num_heads, layer.value_dim) == (64, 6, 128)
    assert layer.lambda_q1.shape == (64,)
    assert layer.head_norm.weight.shape == (128,)
    projected = layer.project(torch.randn(1, 2, 768))
    assert (projected.q.shape, projected.k.shape, projected.v.shape) == ((1, 12, 2, 64), (1, 6, 2, 128), (1, 6, 2, 128))


@pytest.mark.parametrize("kind", [DiffAttentionV1, DiffAttentionV2])
def test_dropout_is_off_in_evaluation(kind):
    """Dropout 0.5, eval, two calls; reported as pytorch issue 124464."""
    dropping, plain = kind(WIDTH, 2, dropout=0.5), kind(WIDTH, 2)
    plain.load_state_dict(dropping.state_dict())
    x = torch.randn(B, T, WIDTH)
    assert not torch.equal(dropping(x), dropping(x))
    dropping.eval()
    assert torch.equal(dropping(x), dropping(x))
    assert torch.equal(dropping(x), plain(x))


def test_v1_and_its_norm_under_autocast():
    """V1 under autocast(bfloat16), forward and backward; reported as torchtitan issue 2542."""
    layer = DiffAttentionV1(WIDTH, 2, 1)
    x = torch.randn(B, T, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    out.float().sum().backward()
    expected = layer(x)
    assert (out - expected).norm() < 4 * 2**-8 * expected.norm()  # projections, maps, norm and output, rounded each
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in layer.parameters())


def test_head_norm_under_autocast_rounds_only_its_result():
    """bfloat16 heads under autocast, the norm itself in float32; reported as torchtitan issue 2542."""
    norm = DiffAttentionV1(WIDTH, 2).head_norm
    heads = (300 * torch.randn(200, norm.weight.shape[0])).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        got = norm(heads).double()
    wide = heads.double()
    exact = wide * (wide.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    assert ((got - exact).abs() <= (2**-8 + 2**-20) * exact.abs()).all()
