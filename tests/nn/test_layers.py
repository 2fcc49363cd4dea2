"""Layers against formulas written out by hand, in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from diffattn.nn import DiffAttentionV1, DiffAttentionV2, GatedAttention, SoftmaxAttention, lambda_init_schedule
from diffattn.nn.rotary import RotaryEmbedding, apply_rotary
from oracle import loop_attention, rules

LAYERS = (SoftmaxAttention, GatedAttention, DiffAttentionV1, DiffAttentionV2)
B, T, WIDTH, H, HKV = 2, 6, 32, 4, 2


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def layer_of(kind, **kwargs):
    return kind(WIDTH, kwargs.pop("heads", H), kwargs.pop("kv_heads", HKV), dtype=torch.float64, **kwargs)


def rotate_by_hand(x, position):
    """Channels i and i + D/2 of one vector turned by position * base^(-2i/D)."""
    half = len(x) // 2
    out = list(x)
    for i in range(half):
        angle = position * 10000.0 ** (-2 * i / len(x))
        out[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        out[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
    return out


def test_rotary_by_hand():
    x = torch.randn(1, 3, 2, 8, dtype=torch.float64)
    got = apply_rotary(x, *RotaryEmbedding(8)(torch.arange(3)[None], torch.float64))
    for t in range(3):
        for h in range(2):
            expected = torch.tensor(rotate_by_hand(x[0, t, h].tolist(), t), dtype=torch.float64)
            torch.testing.assert_close(got[0, t, h], expected, rtol=1e-12, atol=1e-12)


def test_v2_is_ordinary_attention_with_2h_heads_and_a_stacked_output_matrix():
    """For fixed lambda: attention of 2H heads, then `[Wo; -sigmoid(lam) Wo]`."""
    layer = layer_of(DiffAttentionV2)
    with torch.no_grad():
        layer.lambda_proj.weight.zero_()
        layer.lambda_proj = torch.nn.Linear(WIDTH, H, dtype=torch.float64)
        layer.lambda_proj.weight.zero_()
    gate = torch.sigmoid(layer.lambda_proj.bias.detach())
    x = torch.randn(B, T, WIDTH, dtype=torch.float64)
    d = WIDTH // H

    heads = layer.q_proj(x).view(B, T, H, 2, d)
    heads = torch.cat([heads[..., 0, :], heads[..., 1, :]], dim=2)  # all signal maps, then all noise maps
    keys = layer.k_proj(x).view(B, T, HKV, d)
    cos, sin = layer.rotary(torch.arange(T)[None], torch.float64)
    q, k = (apply_rotary(t, cos, sin).transpose(1, 2) for t in (heads, keys))
    v = layer.v_proj(x).view(B, T, HKV, d).transpose(1, 2)
    k, v = (t.repeat_interleave(H // HKV, dim=1).repeat(1, 2, 1, 1) for t in (k, v))
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
    wo = layer.o_proj.weight.T
    stacked = torch.cat([wo, -gate.repeat_interleave(d)[:, None] * wo])
    torch.testing.assert_close(layer(x), context @ stacked, rtol=1e-12, atol=1e-13)


def test_v1_with_lambda_0_is_ordinary_attention_on_its_first_maps_then_the_norm():
    layer = layer_of(DiffAttentionV1, heads=2, kv_heads=1, layer_idx=1)
    with torch.no_grad():
        layer.lambda_init = 0.0  # the vectors' own part is set to 0 too
        layer.lambda_k1.zero_()
        layer.lambda_k2.zero_()
        layer.head_norm.weight.uniform_(0.5, 2)
    x = torch.randn(B, T, WIDTH, dtype=torch.float64)
    d = layer.map_dim
    cos, sin = layer.rotary(torch.arange(T)[None], torch.float64)
    q = apply_rotary(layer.q_proj(x).view(B, T, 4, d)[:, :, 0::2], cos, sin).transpose(1, 2)
    k = apply_rotary(layer.k_proj(x).view(B, T, 2, d)[:, :, 0::2], cos, sin).transpose(1, 2)
    v = layer.v_proj(x).view(B, T, 1, 2 * d).transpose(1, 2)
    context = loop_attention(q, q, k, v, 0.0, rules(T, T))
    norm = context / (context.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.head_norm.weight
    torch.testing.assert_close(layer(x), layer.o_proj(norm.transpose(1, 2).flatten(2)), rtol=1e-10, atol=1e-12)


def test_v1_in_full():
    """Grouped by the flash rule: every head of group g uses keys 2g and 2g + 1."""
    layer = layer_of(DiffAttentionV1, heads=4, kv_heads=2, layer_idx=3)
    x = torch.randn(B, T, WIDTH, dtype=torch.float64)
    d = layer.map_dim
    cos, sin = layer.rotary(torch.arange(T)[None], torch.float64)
    q = apply_rotary(layer.q_proj(x).view(B, T, 8, d), cos, sin).transpose(1, 2)
    k = apply_rotary(layer.k_proj(x).view(B, T, 4, d), cos, sin).transpose(1, 2)
    v = layer.v_proj(x).view(B, T, 2, 2 * d).transpose(1, 2)
    dots = [(layer.get_parameter(f"lambda_q{i}") @ layer.get_parameter(f"lambda_k{i}")).item() for i in (1, 2)]
    init = 0.8 - 0.6 * math.exp(-0.9)
    lam = math.exp(dots[0]) - math.exp(dots[1]) + init
    heads = []
    for h in range(4):
        g = h // 2
        maps = [q[:, i : i + 1] for i in (2 * h, 2 * h + 1)]
        pair = torch.cat([k[:, 2 * g : 2 * g + 1], k[:, 2 * g + 1 : 2 * g + 2]], dim=-1)
        heads.append(loop_attention(*maps, pair, v[:, g : g + 1], lam, rules(T, T)))
    context = torch.cat(heads, dim=1)
    norm = context / (context.square().mean(-1, keepdim=True) + 1e-5).sqrt() * (1 - init)
    torch.testing.assert_close(layer(x), layer.o_proj(norm.transpose(1, 2).flatten(2)), rtol=1e-12, atol=1e-13)


def test_gate_multiplies_the_heads_outputs():
    layer = layer_of(GatedAttention)
    plain = layer_of(SoftmaxAttention)
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if "gate" not in k})
    x = torch.randn(B, T, WIDTH, dtype=torch.float64)
    projected = plain.project(x, plain.rotary(torch.arange(T)[None], torch.float64))
    context = plain.attend(projected).transpose(1, 2).flatten(2)
    torch.testing.assert_close(layer(x), layer.o_proj(context * torch.sigmoid(layer.gate_proj(x))))


@pytest.mark.parametrize("kind", LAYERS)
def test_combine_agrees_with_the_operator(kind):
    """Any engine that returns each physical head's own output leads to the same result."""
    layer = layer_of(kind, heads=2, kv_heads=1)
    x = torch.randn(B, T, WIDTH, dtype=torch.float64)
    projected = layer.project(x)
    context = layer.attend(projected).transpose(1, 2)
    keys = projected.k.split(layer.map_dim, dim=-1)
    maps = []
    for physical in range(projected.q.shape[1]):
        key = keys[physical % layer.MAPS] if layer.KEYS == 2 else keys[0]
        q = projected.q[:, physical : physical + 1]
        maps.append(loop_attention(q, q, key, projected.v, 0.0, rules(T, T)))
    maps = torch.cat(maps, dim=1).transpose(1, 2).unflatten(2, (layer.num_heads, layer.MAPS))
    torch.testing.assert_close(layer.combine(maps, projected.extra), context)


@pytest.mark.parametrize("kind", LAYERS)
def test_built_on_meta_then_reset(kind):
    layer = kind(WIDTH, 2, 1, device="meta", qk_norm=True, bias=True)
    assert all(p.is_meta for p in layer.parameters())
    assert not list(layer.buffers())
    layer.to_empty(device="cpu")
    with torch.no_grad():
        for p in layer.parameters():
            p.fill_(float("nan"))
    layer.reset_parameters()
    assert all(p.isfinite().all() for p in layer.parameters())
    assert layer(torch.randn(1, 3, WIDTH)).isfinite().all()
    if kind is DiffAttentionV1:
        assert abs(layer.lambda_value().item() - layer.lambda_init) < 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_large_lambda_vectors_stay_finite(dtype):
    layer = DiffAttentionV1(WIDTH, 2, map_dim=16, dtype=dtype)
    value = 0.9 if dtype == torch.float16 else (192 / 16) ** 0.5
    with torch.no_grad():
        for name in layer.VECTORS:
            layer.get_parameter(name).fill_(value)
    out = layer(torch.randn(1, 5, WIDTH, dtype=dtype))
    out.float().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    assert layer.lambda_value().item() == pytest.approx(layer.lambda_init)


@pytest.mark.parametrize("kind", LAYERS)
def test_autocast_keeps_the_norm_in_float32(kind):
    layer = kind(WIDTH, 2, 1, qk_norm=True)
    x = torch.randn(1, 5, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    assert out.dtype == torch.bfloat16
    assert (out.float() - layer(x)).norm() / layer(x).norm() < 0.03
    if kind is DiffAttentionV1:
        seen = []
        layer.head_norm.register_forward_hook(lambda _, args, result: seen.append((args[0].dtype, result.dtype)))
        exact = torch.randn(3, layer.value_dim) * 300
        with torch.autocast("cpu", torch.bfloat16):
            got = layer.head_norm(exact)
        torch.testing.assert_close(got, exact / (exact.square().mean(-1, keepdim=True) + 1e-5).sqrt())
        assert seen[-1] == (torch.float32, torch.float32)


@pytest.mark.parametrize("kind", LAYERS)
def test_dropout_is_off_in_evaluation(kind):
    layer = kind(WIDTH, 2, 1, dropout=0.5)
    x = torch.randn(1, 5, WIDTH)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


@pytest.mark.parametrize("kind", LAYERS)
def test_window_and_padding_reach_the_operator(kind):
    layer = kind(WIDTH, 2, 1, window=2, dtype=torch.float64)
    x = torch.randn(1, 6, WIDTH, dtype=torch.float64)
    other = x.clone()
    other[:, 0] = 7.0
    assert torch.equal(layer(x)[:, 3:], layer(other)[:, 3:])
    assert not torch.equal(layer(x)[:, 1], layer(other)[:, 1])
    wide = kind(WIDTH, 2, 1, dtype=torch.float64)
    mask = torch.arange(6)[None] > 0
    torch.testing.assert_close(wide(x, mask=mask)[:, 1:], wide(other, mask=mask)[:, 1:])
    segments = torch.tensor([[0, 0, 0, 1, 1, 1]])
    alone = wide(x[:, 3:], positions=torch.arange(3, 6)[None])
    torch.testing.assert_close(wide(x, segment_ids=(segments, segments))[:, 3:], alone)


def test_lambda_schedule():
    table = {0: 0.2000, 1: 0.3555, 2: 0.4707, 5: 0.6661, 11: 0.7779, 23: 0.7994}
    for layer, expected in table.items():
        assert lambda_init_schedule(layer) == pytest.approx(expected, abs=6e-5)


def test_fixed_lambda_and_no_norm():
    layer = DiffAttentionV1(WIDTH, 2, lambda_init=0.5, lambda_granularity="fixed", head_norm=False)
    assert layer.lambda_value() == 0.5
    assert not [name for name, _ in layer.named_parameters() if "lambda" in name or "norm" in name]
    x = torch.randn(1, 4, WIDTH)
    projected = layer.project(x)
    context = layer.attend(projected).transpose(1, 2)
    torch.testing.assert_close(layer.output(context), layer.o_proj(context.flatten(2)))


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (DiffAttentionV2, (36, 5), "hidden_size: 36 is no multiple of 5"),
        (DiffAttentionV1, (36, 4), "hidden_size: 36 is no multiple of 8"),
        (SoftmaxAttention, (36, 4), "map_dim: expected an even width"),
        (DiffAttentionV2, (32, 4, 3), "num_kv_heads: 3 must divide num_heads 4"),
        (DiffAttentionV2, (32, 4, 0), "num_kv_heads: 0 must divide"),
        (DiffAttentionV1, (32, 0), "num_kv_heads: 0 must divide num_heads 0"),
        (DiffAttentionV2, (32, 4, 2, -2), "map_dim: expected an even width"),
    ],
)
def test_widths_that_do_not_fit_are_refused_when_built(kind, arguments, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        kind(*arguments)


def test_v1_of_768_and_12_baseline_heads():
    layer = DiffAttentionV1(768, 6)
    assert (layer.map_dim, layer.num_heads, layer.value_dim) == (64, 6, 128)
    assert sum(p.numel() for p in layer.parameters()) == 4 * 768 * 768 + 6 * 64


@pytest.mark.parametrize(
    ("kind", "heads", "kv_heads", "parameters"),
    [
        (SoftmaxAttention, 32, 8, 41_943_040),
        (SoftmaxAttention, 32, 32, 67_108_864),
        (DiffAttentionV1, 16, 4, 41_943_808),
        (DiffAttentionV1, 16, 16, 67_109_632),
        (DiffAttentionV2, 32, 8, 58_851_328),
        (DiffAttentionV2, 32, 32, 84_017_152),
    ],
)
def test_published_parameter_counts(kind, heads, kv_heads, parameters):
    layer = kind(4096, heads, kv_heads, device="meta")
    assert layer.map_dim == 128
    assert sum(p.numel() for p in layer.parameters()) == parameters


def test_positions_of_another_shape_are_refused():
    layer = DiffAttentionV1(64, 4)
    x = torch.randn(2, 5, 64)
    for positions in (torch.arange(5), torch.arange(5).expand(3, 5), torch.arange(6)[None]):
        with pytest.raises(ValueError, match=r"^positions: expected shape \[1 or 2, 5\]"):
            layer(x, positions=positions)
    assert torch.equal(layer(x, positions=torch.arange(5).expand(2, 5)), layer(x))
