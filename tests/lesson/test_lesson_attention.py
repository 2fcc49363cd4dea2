"""The plain-Python operator and the real one, which share no code, agree to the last digits."""

from __future__ import annotations

import random

import pytest
import torch

from diffattn import diff_attention as real_operator
from diffattn.lesson.attention import attention_map, diff_attention, product, softmax, softmax_attention, subtract


def tensor(nested):
    return torch.tensor(nested, dtype=torch.float64)


def drawn(rng, *shape):
    return [drawn(rng, *shape[1:]) for _ in range(shape[0])] if shape else rng.gauss(0, 1)


def case(seed):
    """Random heads (grouped, fewer noise heads), lengths, widths, keys of V1 or V2, lambda of every form."""
    rng = random.Random(seed)
    kv_heads = rng.choice([1, 2, 3])
    noise_heads = kv_heads * rng.choice([1, 2])
    heads = noise_heads * rng.choice([1, 2, 3])
    tq, tk, width, value_width = (rng.randint(1, 7) for _ in range(4))
    q1, q2 = drawn(rng, heads, tq, width), drawn(rng, noise_heads, tq, width)
    k = drawn(rng, kv_heads, tk, width * rng.choice([1, 2]))
    v = drawn(rng, kv_heads, tk, value_width)
    lam = rng.choice([rng.uniform(-1, 2), drawn(rng, heads, tq)])
    return q1, q2, k, v, lam, rng.random() < 0.6


@pytest.mark.parametrize("seed", range(60))
def test_it_agrees_with_the_reference(seed):
    q1, q2, k, v, lam, causal = case(seed)
    wanted = real_operator(
        *(tensor([x]) for x in (q1, q2, k, v)),
        tensor([lam]) if isinstance(lam, list) else lam,
        causal=causal,
        backend="reference",
    )
    found = tensor([diff_attention(q1, q2, k, v, lam, causal=causal)])
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_the_random_cases_cover_what_they_claim():
    cases = [case(seed) for seed in range(60)]
    assert any(len(q2) < len(q1) for q1, q2, *_ in cases)
    assert any(len(k) < len(q2) for _, q2, k, *_ in cases)
    assert any(len(k[0][0]) == 2 * len(q1[0][0]) for q1, _, k, *_ in cases)
    assert any(len(q1[0]) > len(k[0]) and causal for q1, _, k, _, _, causal in cases)
    assert any(len(q1[0]) < len(k[0]) and causal for q1, _, k, _, _, causal in cases)
    assert {isinstance(lam, list) for *_, lam, _ in cases} == {True, False}


@pytest.mark.parametrize("causal", [True, False])
def test_ordinary_attention_is_lambda_0(causal):
    rng = random.Random(1)
    q, k, v = drawn(rng, 6, 3, 4), drawn(rng, 2, 5, 4), drawn(rng, 2, 5, 3)
    wanted = real_operator(*(tensor([x]) for x in (q, q, k, v)), 0.0, causal=causal, backend="reference")
    found = tensor([softmax_attention(q, k, v, causal=causal)])
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_softmax_neither_overflows_nor_loses_its_sum():
    assert softmax([1000.0, 1000.0]) == [0.5, 0.5]
    assert softmax([-1e308, 0.0]) == [0.0, 1.0]
    assert sum(softmax([1.0, 2.0, 3.0])) == pytest.approx(1, abs=1e-15)


def test_a_map_is_aligned_to_the_lower_right_corner():
    keys = [[1.0], [1.0], [1.0], [1.0]]
    assert attention_map([[0.0]], keys) == [[0.25] * 4]
    assert attention_map([[0.0]] * 5, keys)[:2] == [[0.0] * 4, [1.0, 0.0, 0.0, 0.0]]
    assert attention_map([[0.0]] * 2, keys, causal=False) == [[0.25] * 4] * 2


def test_the_same_map_twice_cancels_exactly():
    rng = random.Random(2)
    q, k, v = drawn(rng, 2, 4, 3), drawn(rng, 1, 4, 3), drawn(rng, 1, 4, 2)
    assert all(x == 0 for rows in diff_attention(q, q, k, v, 1.0) for row in rows for x in row)


def test_subtract_and_product_by_hand():
    assert subtract([[1.0, 0.0]], [[0.5, 0.5]], [0.5]) == [[0.75, -0.25]]
    assert product([[0.5, 0.5]], [[1.0, 2.0], [3.0, 4.0]]) == [[2.0, 3.0]]
