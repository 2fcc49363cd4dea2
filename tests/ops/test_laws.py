"""Laws of the operator: two functions of the same tensors that must have the same outputs and gradients."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from diffattn.ops import softmax_attention

B, H, T, WIDE, ALL = 2, 4, 9, 2**40, slice(None)


def make(Hn=H, Hkv=2, Tq=T, Tk=T, D=4, pair=False, Dv=None):
    generator = torch.Generator().manual_seed(0)
    width = 2 * D if pair else D
    shapes = ((B, H, Tq, D), (B, Hn, Tq, D), (B, Hkv, Tk, width), (B, Hkv, Tk, Dv or width), (B, H, Tq))
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def both_ways(left, right, x):
    """Asserts that two functions of the tensors `x` have equal outputs and gradients."""
    for got, want in zip(out_and_gradients(left, x), out_and_gradients(right, x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-12)


def out_and_gradients(function, x):
    leaves = [t.detach().clone().requires_grad_() for t in x]
    out = function(*leaves)
    up = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=out.dtype)
    return out.detach(), *torch.autograd.grad(out, leaves, up, allow_unused=True, materialize_grads=True)


def some_mask(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(2)) > 0.4


IDS = torch.tensor([[4, 4, 4, 4, 7, 1, 1, 1, 1], [0, 0, 5, 5, 5, 5, 2, 2, 2]])
SCATTERED = torch.tensor([[0, 1, 0, 2, 2, 1, 0, 1, 0], [3, 3, 1, 3, 3, 3, 1, 1, 3]])
SIGHTS = {
    "causal": {},
    "all": {"causal": False},
    "window": {"window": 3},
    "two sides": {"causal": False, "window": (1, 2)},
    "left padding": {"mask": torch.arange(T) >= torch.tensor([[2], [0]])},
    "holes": {"mask": some_mask(B, T)},
    "a mask a head": {"mask": some_mask(B, H, T, T)},
    "lengths": {"k_lengths": torch.tensor([6, 9])},
    "documents": {"segment_ids": (IDS, IDS)},
    "scattered": {"segment_ids": (SCATTERED, SCATTERED), "window": 4},
}
each_sight = pytest.mark.parametrize("sight", SIGHTS.values(), ids=list(SIGHTS))
WINDOWS = [{}, {"window": 3}, {"causal": False}, {"causal": False, "window": (2, 1)}]
each_window = pytest.mark.parametrize("arguments", WINDOWS, ids=str)
each_key = pytest.mark.parametrize("pair", [False, True], ids=["one key", "key pair"])


def at(x, queries, keys):
    return *(t[:, :, queries] for t in x[:2]), *(t[:, :, keys] for t in x[2:4]), x[4][:, :, queries]


def sight_at(sight, queries, keys):
    picked = dict(sight)
    if "mask" in sight:
        picked["mask"] = sight["mask"][..., keys]
    if "segment_ids" in sight:
        picked["segment_ids"] = (sight["segment_ids"][0][:, queries], sight["segment_ids"][1][:, keys])
    return picked


@each_key
@pytest.mark.parametrize("name", ["all", "holes", "a mask a head", "documents"])
def test_the_order_of_keys_means_nothing_without_causal(attend, name, pair):
    order = torch.randperm(T, generator=torch.Generator().manual_seed(3))
    sight = {**SIGHTS[name], "causal": False}
    turned = partial(attend, **sight_at(sight, ALL, order))
    both_ways(partial(attend, **sight), lambda *x: turned(*at(x, ALL, order)), make(pair=pair))


def of_row(value, b):
    if isinstance(value, dict):
        return {name: of_row(part, b) for name, part in value.items()}
    if isinstance(value, torch.Tensor):
        return value[b : b + 1]
    return tuple(of_row(part, b) for part in value) if isinstance(value, tuple) else value


@each_sight
def test_batch_rows_know_nothing_of_each_other(attend, sight):
    def apart(*x):
        return torch.cat([attend(*of_row(x, b), **of_row(sight, b)) for b in range(B)])

    both_ways(partial(attend, **sight), apart, make())


DOCUMENTS = [(IDS, arguments) for arguments in WINDOWS] + [(SCATTERED, {}), (SCATTERED, {"causal": False})]


@each_key
@pytest.mark.parametrize(("ids", "arguments"), DOCUMENTS)
def test_packed_documents_equal_each_alone(attend, ids, arguments, pair):
    def alone(*x):
        return torch.cat([row(of_row(x, b), ids[b]) for b in range(B)])

    def row(x, names):
        places = [(names == name).nonzero()[:, 0] for name in names.unique()]
        outs = [attend(*(t.index_select(2, at) for t in x), **arguments) for at in places]
        return torch.cat(outs, dim=2).index_select(2, torch.cat(places).argsort())

    both_ways(partial(attend, segment_ids=(ids, ids), **arguments), alone, make(pair=pair))


@each_key
@pytest.mark.parametrize("name", ["causal", "window", "left padding", "holes", "documents", "scattered"])
@pytest.mark.parametrize("first", [1, 4])
def test_a_prefix_and_its_continuation_equal_the_whole(attend, first, name, pair):
    def in_two(*x):
        parts = (slice(0, first), slice(0, first)), (slice(first, T), ALL)
        return torch.cat([attend(*at(x, *part), **sight_at(SIGHTS[name], *part)) for part in parts], dim=2)

    both_ways(partial(attend, **SIGHTS[name]), in_two, make(pair=pair))


@pytest.mark.parametrize("Tq", [4, 12])
@pytest.mark.parametrize("name", ["causal", "all", "holes", "lengths"])
def test_a_window_as_wide_as_the_context_is_none(attend, name, Tq):
    for wide in (max(Tq, T), WIDE):
        window = (wide, wide) if name == "all" else wide
        both_ways(partial(attend, **SIGHTS[name]), partial(attend, window=window, **SIGHTS[name]), make(Tq=Tq))


@pytest.mark.parametrize("window", [1, 3, WIDE])
@pytest.mark.parametrize("name", ["causal", "holes", "a mask a head", "lengths", "documents"])
def test_a_causal_window_is_a_two_sided_one_without_a_right_side(attend, name, window):
    two_sided = partial(attend, causal=False, window=(window - 1, 0), **SIGHTS[name])
    both_ways(partial(attend, window=window, **SIGHTS[name]), two_sided, make())


@each_sight
@each_key
def test_fewer_noise_heads_equal_repeated_ones(attend, pair, sight):
    def repeated(q1, q2, k, v, lam):
        return attend(q1, q2.repeat_interleave(2, dim=1), k, v, lam, **sight)

    both_ways(partial(attend, **sight), repeated, make(Hn=2, Hkv=1, pair=pair))


@each_window
@pytest.mark.parametrize("lengths", [(3, 7), (0, 9)])
@pytest.mark.parametrize("Tq", [1, 4, T])
def test_lengths_equal_cut_keys(attend, Tq, lengths, arguments):
    def cut(*x):
        rows = (at(of_row(x, b), ALL, slice(0, n)) for b, n in enumerate(lengths))
        return torch.cat([attend(*row, **arguments) for row in rows])

    both_ways(partial(attend, k_lengths=torch.tensor(lengths), **arguments), cut, make(Tq=Tq))


@each_window
@pytest.mark.parametrize("Tq", [1, 4, T])
def test_left_padding_equals_cut_keys(attend, Tq, arguments):
    """The last query stays at the last key."""
    padded = partial(attend, mask=(torch.arange(T) >= 3).expand(B, T), **arguments)
    both_ways(padded, lambda *x: attend(*at(x, ALL, slice(3, T)), **arguments), make(Tq=Tq))


def test_right_padding_equals_cut_keys(attend):
    """Under causal the queries before the padding are alone, those in it see every key that is left."""

    def cut(*x):
        left, right = at(x, slice(0, 6), slice(0, 6)), at(x, slice(6, T), slice(0, 6))
        return torch.cat([attend(*left), attend(*right, causal=False)], dim=2)

    both_ways(partial(attend, mask=(torch.arange(T) < 6).expand(B, T)), cut, make())


@each_sight
@pytest.mark.parametrize("order", [(1, 0, 3, 2), (2, 3, 0, 1)], ids=["within a group", "groups"])
def test_the_order_of_heads_means_nothing(attend, order, sight):
    order = torch.tensor(order)
    heads = {"mask": sight["mask"][:, order]} if "mask" in sight and sight["mask"].ndim == 4 else {}

    def turned(q1, q2, k, v, lam):
        x = (*(t[:, order] for t in (q1, q2)), *(t[:, order[::2] // 2] for t in (k, v)), lam[:, order])
        return attend(*x, **{**sight, **heads})[:, order]

    both_ways(partial(attend, **sight), turned, make())


@each_sight
def test_lam_0_is_ordinary_attention(attend, sight):
    ordinary = partial(softmax_attention, **sight)
    both_ways(lambda *x: attend(*x, 0.0, **sight), lambda q1, _, k, v: ordinary(q1, k, v), make()[:4])


@each_sight
@each_key
def test_the_maps_change_places(attend, pair, sight):
    """A1 - lam A2 = -lam (A2 - A1 / lam)."""

    def swapped(q1, q2, k, v, lam):
        return -lam[..., None] * attend(q2, q1, k.roll(4, dims=-1) if pair else k, v, 1 / lam, **sight)

    both_ways(partial(attend, **sight), swapped, make(pair=pair))


@each_sight
@pytest.mark.parametrize("Dv", [3, 6])
def test_linear_in_the_values_column_by_column(attend, Dv, sight):
    def parts(q1, q2, k, v, lam):
        here = partial(attend, q1, q2, k, lam=lam, **sight)
        return torch.cat([here(3 * v[..., :1] - 1), 3 * here(v[..., 1:]) - here(torch.ones_like(v[..., 1:]))], dim=-1)

    both_ways(lambda q1, q2, k, v, lam: attend(q1, q2, k, 3 * v - 1, lam, **sight), parts, make(Dv=Dv))


@pytest.mark.parametrize("shape", [(), (1, 1, 1), (B, 1, 1), (1, H, 1), (1, 1, T), (B, H, 1), (B, 1, T), (1, H, T)])
def test_a_small_lam_equals_an_expanded_one(attend, shape):
    lam = torch.linspace(-1, 2, math.prod(shape), dtype=torch.float64).view(shape)
    both_ways(attend, lambda *x: attend(*x[:4], x[4].expand(B, H, T)), [*make(Hn=2)[:4], lam])


@each_sight
def test_a_scale_is_one_of_the_queries(attend, sight):
    def scaled(q1, q2, *rest):
        return attend(3.4 * q1, 3.4 * q2, *rest, **sight)  # the scale is 4 ** -0.5 unless told

    both_ways(partial(attend, scale=1.7, **sight), scaled, make(pair=True))
