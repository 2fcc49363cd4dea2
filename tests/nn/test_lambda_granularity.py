"""Lambda learned a layer, a head or a token, or fixed: layers against formulas written out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from diffattn.nn import DiffAttentionV1, DiffAttentionV2, lambda_init_schedule
from oracle import loop_attention, rules

B, T, WIDTH, H, HKV = 2, 5, 32, 4, 2
KINDS = {DiffAttentionV1: ("layer", "fixed", "head", "token"), DiffAttentionV2: ("token", "head", "layer", "fixed")}
every_layer = pytest.mark.parametrize(("kind", "granularity"), [(k, g) for k, names in KINDS.items() for g in names])


def layer_of(kind, granularity, **kwargs):
    torch.manual_seed(0)
    made = {"dtype": torch.float64, "rope_base": None, "lambda_granularity": granularity, **kwargs}
    layer = kind(WIDTH, H, HKV, **made)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.startswith("lambda"):
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return layer


def numbers(x):
    return x.detach().tolist()


def lambda_by_hand(layer, x, b, h, t):
    kind = layer.lambda_granularity
    if kind == "fixed":
        return layer.lambda_init
    if kind == "token":
        weight, bias = numbers(layer.lambda_proj.weight)[h], layer.lambda_proj.bias
        logit = sum(w * c for w, c in zip(weight, numbers(x)[b][t], strict=True))
        return 1 / (1 + math.exp(-logit - (0.0 if bias is None else numbers(bias)[h])))
    if isinstance(layer, DiffAttentionV2):
        logits = numbers(layer.lambda_logit)
        assert len(logits) == (H if kind == "head" else 1)
        return 1 / (1 + math.exp(-logits[h if kind == "head" else 0]))
    vectors = [numbers(layer.get_parameter(f"lambda_{name}")) for name in ("q1", "k1", "q2", "k2")]
    q1, k1, q2, k2 = (v[h] for v in vectors) if kind == "head" else vectors
    first, second = (sum(a * c for a, c in zip(*pair, strict=True)) for pair in ((q1, k1), (q2, k2)))
    return math.exp(first) - math.exp(second) + layer.lambda_init


@every_layer
def test_the_output_is_that_of_lambda_by_hand(kind, granularity):
    layer = layer_of(kind, granularity, **({"head_norm": False} if kind is DiffAttentionV1 else {}))
    x = torch.randn(B, T, WIDTH, dtype=torch.float64)
    rows = [[[lambda_by_hand(layer, x, b, h, t) for t in range(T)] for h in range(H)] for b in range(B)]
    lam = torch.tensor(rows, dtype=torch.float64)
    if granularity in ("head", "token"):
        assert lam.std(1).min() > 0.01
    q = layer.q_proj(x).view(B, T, H, 2, layer.map_dim)
    k, v = layer.k_proj(x).view(B, T, HKV, -1), layer.v_proj(x).view(B, T, HKV, -1)
    maps = (q[..., 0, :], q[..., 1, :], k, v)
    context = loop_attention(*(t.transpose(1, 2) for t in maps), lam, rules(T, T))
    expected = layer.o_proj(context.transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x), expected, rtol=1e-11, atol=1e-12)
    layer(x).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.abs().max() > 0, name


@every_layer
def test_combine_of_an_engines_maps_agrees(kind, granularity):
    layer = layer_of(kind, granularity)
    x = torch.randn(B, T, WIDTH, dtype=torch.float64)
    projected = layer.project(x)
    d = layer.map_dim
    keys = [projected.k[..., :d], projected.k[..., d:] if layer.KEYS == 2 else projected.k]
    maps = [
        loop_attention(q, q, key, projected.v, 0.0, rules(T, T))
        for q, key in zip((projected.q[:, 0::2], projected.q[:, 1::2]), keys, strict=True)
    ]
    engine = torch.stack(maps, dim=2).permute(0, 3, 1, 2, 4)
    torch.testing.assert_close(layer.combine(engine, projected.extra), layer.attend(projected).transpose(1, 2))


@every_layer
def test_built_on_meta_then_reset_lambda_starts_where_it_is_said(kind, granularity):
    layer = kind(WIDTH, H, lambda_granularity=granularity, lambda_init=0.3, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(float("nan"))
    layer.reset_parameters()
    lam = torch.as_tensor(layer.extra(torch.zeros(1, 3, WIDTH)))
    exact = kind is DiffAttentionV2 or granularity in ("fixed", "token")
    expected = 0.5 if kind is DiffAttentionV2 and granularity == "token" else 0.3
    assert ((lam - expected).abs() < (1e-6 if exact else 1.0)).all()
    assert layer(torch.randn(1, 3, WIDTH)).isfinite().all()


def test_the_schedule_is_where_v1s_token_starts():
    layer = DiffAttentionV1(WIDTH, H, layer_idx=3, lambda_granularity="token")
    lam = layer.extra(torch.zeros(2, 3, WIDTH))
    torch.testing.assert_close(lam, torch.full((2, H, 3), lambda_init_schedule(3)))


def test_a_heads_large_vectors_stay_finite_and_leave_other_heads_alone():
    layer = DiffAttentionV1(WIDTH, H, lambda_granularity="head", dtype=torch.bfloat16)
    with torch.no_grad():
        layer.lambda_q1[1], layer.lambda_k1[1] = 30.0, 30.0
    lam = layer.lambda_value()
    assert lam.shape == (1, H, 1)
    assert lam.dtype == torch.float32
    assert 22_000 < lam[0, 1] < 22_050
    assert lam[0, [0, 2, 3]].abs().max() < 2


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (
            DiffAttentionV1,
            {"lambda_granularity": "row"},
            "lambda_granularity: expected layer or fixed or head or token",
        ),
        (
            DiffAttentionV2,
            {"lambda_granularity": "row"},
            "lambda_granularity: expected token or head or layer or fixed",
        ),
        (
            DiffAttentionV1,
            {"lambda_granularity": "token", "lambda_init": 1.0},
            "lambda_init: expected a number between",
        ),
        (DiffAttentionV2, {"lambda_granularity": "head", "lambda_init": 0}, "lambda_init: expected a number between 0"),
        (DiffAttentionV2, {"lambda_granularity": "layer", "lambda_init": float("nan")}, "lambda_init: expected a num"),
    ],
)
def test_what_does_not_fit_is_refused(kind, fields, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        kind(WIDTH, H, **fields)
