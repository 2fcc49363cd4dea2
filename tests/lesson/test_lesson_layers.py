"""The layers on plain lists and the real ones, on the same weights, agree to the last digits."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
import torch

from diffattn.lesson.layers import V1, V2, heads_of, join, lambda_init, lambda_v1, rms, rms_norm, sigmoid
from diffattn.lesson.parts.examples import example_v1, example_v2, matrix
from diffattn.lesson.parts.second_version import as_ordinary, half_split
from diffattn.nn import DiffAttentionV1, DiffAttentionV2
from diffattn.nn.lambdas import lambda_init_schedule

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def tensor(nested):
    return torch.tensor(nested, dtype=torch.float64)


def loaded(layer, **weights):
    """A real layer with these weights."""
    state = {name: tensor(value) for name, value in weights.items()}
    layer.load_state_dict(state, strict=True)
    return layer


def run(layer, x):
    with torch.no_grad():
        return layer(tensor([x]))[0]


def projections(layer):
    return {f"{name}_proj.weight": getattr(layer, name) for name in "qkvo"}


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("layer_idx", [0, 5])
def test_v1(kv_heads, norm, layer_idx):
    rng, heads, width, stream = random.Random(kv_heads), 4, 4, 10
    plain = V1(
        q=matrix(rng, 2 * heads * width, stream),
        k=matrix(rng, 2 * kv_heads * width, stream),
        v=matrix(rng, 2 * kv_heads * width, stream),
        o=matrix(rng, stream, 2 * heads * width),
        vectors=matrix(rng, 4, width, 0.3),
        norm=matrix(rng, 1, 2 * width)[0] if norm else None,
        width=width,
        layer=layer_idx,
    )
    real = DiffAttentionV1(
        stream, heads, kv_heads, width, rope_base=None, layer_idx=layer_idx, head_norm=norm, dtype=torch.float64
    )
    names = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")
    more = {"head_norm.weight": plain.norm} if norm else {}
    loaded(real, **projections(plain), **dict(zip(names, plain.vectors, strict=True)), **more)
    x = matrix(rng, 7, stream)
    torch.testing.assert_close(tensor(plain(x)), run(real, x), **CLOSE)
    assert plain.lam == pytest.approx(real.lambda_value().item(), rel=1e-12)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_v2(kv_heads):
    rng, heads, width, stream = random.Random(kv_heads), 4, 4, 10
    plain = V2(
        q=matrix(rng, 2 * heads * width, stream),
        k=matrix(rng, kv_heads * width, stream),
        v=matrix(rng, kv_heads * width, stream),
        o=matrix(rng, stream, heads * width),
        lam=matrix(rng, heads, stream),
        width=width,
    )
    real = DiffAttentionV2(stream, heads, kv_heads, width, rope_base=None, dtype=torch.float64)
    loaded(real, **projections(plain), **{"lambda_proj.weight": plain.lam})
    x = matrix(rng, 7, stream)
    torch.testing.assert_close(tensor(plain(x)), run(real, x), **CLOSE)


def test_v2_is_ordinary_attention_with_a_tied_output_weight():
    layer, x = example_v2()
    torch.testing.assert_close(tensor(as_ordinary(layer, x)), tensor(layer(x)), **CLOSE)


def test_half_split_pairing_is_another_layer():
    layer, x = example_v2()
    assert (tensor(half_split(layer, x)) - tensor(layer(x))).abs().max() > 1


def test_the_norm_makes_the_layer_blind_to_the_size_of_its_values():
    layer, x = example_v1()
    louder = dataclasses.replace(layer, v=[[1000 * value for value in row] for row in layer.v])
    torch.testing.assert_close(tensor(louder(x)), tensor(layer(x)), rtol=1e-3, atol=1e-3)
    bare = dataclasses.replace(layer, norm=None)
    bare_louder = dataclasses.replace(louder, norm=None)
    torch.testing.assert_close(tensor(bare_louder(x)), 1000 * tensor(bare(x)), **CLOSE)


@pytest.mark.parametrize("layer", [0, 1, 2, 5, 11, 23])
def test_lambda(layer):
    assert lambda_init(layer) == pytest.approx(lambda_init_schedule(layer), rel=1e-15)
    zeros = [[0.0, 0.0]] * 4
    assert lambda_v1(zeros, layer) == pytest.approx(lambda_init(layer))
    ones = [[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert lambda_v1(ones, layer) == pytest.approx(math.e - 1 + lambda_init(layer))


def test_small_pieces():
    rows = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    assert heads_of(rows, 2) == [[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]]
    assert join(heads_of(rows, 2)) == rows
    assert rms([3.0, 4.0]) == pytest.approx(math.sqrt(12.5))
    assert rms(rms_norm([3.0, 4.0], [1.0, 1.0])) == pytest.approx(1, abs=1e-6)
    assert [sigmoid(-1000), sigmoid(0), sigmoid(1000)] == [0.0, 0.5, 1.0]
