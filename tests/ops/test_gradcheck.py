"""Gradients with respect to every argument against finite differences, in float64."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from diffattn.ops import diff_attention


def ids(*rows):
    return torch.tensor(rows)


def padding(*rows):
    return torch.tensor(rows).bool()


def masked(*shape, seed=0):
    return {"mask": torch.rand(shape, generator=torch.Generator().manual_seed(seed)) > 0.4}


CASES = {
    "causal square": ({}, {}),
    "rectangle": ({"Tq": 2, "Tk": 5}, {}),
    "more queries than keys": ({"Tq": 5, "Tk": 2}, {}),
    "decode": ({"Tq": 1, "Tk": 5}, {}),
    "decode with lengths": ({"B": 2, "Tq": 1, "Tk": 4}, {"k_lengths": torch.tensor([4, 2])}),
    "all seen": ({"Tq": 3, "Tk": 4}, {"causal": False}),
    "window": ({"Tq": 5, "Tk": 5}, {"window": 2}),
    "window on a rectangle": ({"Tq": 3, "Tk": 5}, {"window": 2}),
    "window with blind rows": ({"Tq": 5, "Tk": 2}, {"window": 2}),
    "two-sided window": ({"Tq": 5, "Tk": 5}, {"causal": False, "window": (1, 1)}),
    "two-sided window that blinds": ({"Tq": 5, "Tk": 2}, {"causal": False, "window": (0, 1)}),
    "documents": ({"Tq": 5, "Tk": 5}, {"segment_ids": (ids([3, 3, 0, 0, 0]), ids([3, 3, 0, 0, 0]))}),
    "documents, all seen": ({"Tq": 4}, {"causal": False, "segment_ids": (ids([1, 1, 0, 2]), ids([1, 1, 0, 2]))}),
    "documents and window": ({"Tq": 5}, {"window": 2, "segment_ids": (ids([3, 3, 0, 0, 0]), ids([3, 3, 0, 0, 0]))}),
    "documents on a rectangle": ({"Tq": 3, "Tk": 5}, {"segment_ids": (ids([1, 2, 2]), ids([0, 1, 1, 2, 2]))}),
    "document that no key has": ({"Tq": 3, "Tk": 4}, {"segment_ids": (ids([1, 7, 2]), ids([0, 1, 1, 2]))}),
    "scattered ids": ({"Tq": 5}, {"segment_ids": (ids([0, 1, 0, 1, 0]), ids([0, 1, 0, 1, 0]))}),
    "left padding": ({"B": 2, "Tq": 4}, {"mask": padding([0, 0, 1, 1], [1, 1, 1, 1])}),
    "right padding": ({"B": 2, "Tq": 4}, {"mask": padding([1, 1, 1, 0], [1, 1, 1, 1])}),
    "padding with holes": ({"Tq": 5}, {"mask": padding([1, 0, 1, 0, 1])}),
    "padding on a rectangle": ({"Tq": 3, "Tk": 5}, {"mask": padding([0, 1, 1, 1, 0])}),
    "all padding": ({"B": 2, "Tq": 3}, {"mask": padding([0, 0, 0], [1, 1, 1])}),
    "mask a head": ({"Tq": 4}, {"causal": False, **masked(1, 2, 4, 4)}),
    "mask a head, causal": ({"Tq": 3, "H": 4, "Hkv": 2}, masked(1, 4, 3, 3, seed=1)),
    "mask a query": ({"Tq": 4}, {"causal": False, **masked(1, 1, 4, 4, seed=2)}),
    "mask of blind rows": ({"Tq": 4}, {"mask": padding([1], [0], [1], [0])[None, None]}),
    "lengths": ({"B": 3, "H": 1, "Tq": 2, "Tk": 4}, {"k_lengths": torch.tensor([4, 0, 2])}),
    "lengths, all seen": ({"B": 2, "Tq": 2, "Tk": 4}, {"causal": False, "k_lengths": torch.tensor([3, 0])}),
    "lengths and window": ({"B": 2, "H": 1, "Tq": 3, "Tk": 5}, {"k_lengths": torch.tensor([4, 3]), "window": 2}),
    "lengths and padding": (
        {"B": 2, "Tq": 3, "Tk": 4},
        {"k_lengths": torch.tensor([4, 3]), "mask": padding([0, 1, 1, 1], [0, 1, 1, 1])},
    ),
    "V1": ({"pair": True}, {}),
    "V1 on a rectangle": ({"pair": True, "Tq": 2, "Tk": 4}, {}),
    "V1 with a window": ({"pair": True, "Tq": 4}, {"window": 2}),
    "V1 with narrow values": ({"pair": True, "Tq": 3, "Dv": 3}, {"mask": padding([0, 1, 1])}),
    "grouped noise": ({"H": 4, "Hn": 2}, {}),
    "grouped noise, V1, window": ({"H": 2, "Hn": 1, "Tq": 4, "pair": True}, {"window": 2}),
    "grouped noise, mask a head": ({"H": 4, "Hn": 2}, masked(1, 4, 3, 3, seed=3)),
    "grouped noise and keys": ({"H": 4, "Hn": 2, "Hkv": 2, "Tq": 2, "Tk": 4}, {}),
    "wide values": ({"Dv": 5}, {}),
    "wide values on a rectangle": ({"Dv": 5, "Tq": 2, "Tk": 4}, {"window": 2}),
    "narrow values": ({"Dv": 1}, {"window": 2}),
    "a large scale": ({"Tq": 3}, {"scale": 3.0, "window": 2}),
}
SECOND = (
    "causal square",
    "rectangle",
    "decode",
    "V1",
    "grouped noise",
    "window with blind rows",
    "lengths",
    "all padding",
)


def leaves_of(B=1, H=2, Hn=None, Hkv=1, Tq=3, Tk=None, D=2, pair=False, Dv=None):
    generator = torch.Generator().manual_seed(0)
    Tk, width = Tk or Tq, 2 * D if pair else D
    shapes = ((B, H, Tq, D), (B, Hn or H, Tq, D), (B, Hkv, Tk, width), (B, Hkv, Tk, Dv or width), (B, H, Tq))
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("case", CASES)
def test_gradients(attend, case):
    shape, sight = CASES[case]
    fast = attend.keywords["backend"] == "reference"  # its gradients are torch's own
    assert torch.autograd.gradcheck(partial(attend, **sight), leaves_of(**shape), fast_mode=fast)


@pytest.mark.parametrize("shape", [(), (1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 3)])
@pytest.mark.parametrize("sight", [{}, {"window": 2}])
def test_gradients_of_a_lam_that_is_broadcast(attend, sight, shape):
    leaves = leaves_of(B=2)
    lam = torch.full(shape, 0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(partial(attend, **sight), (*leaves[:4], lam), fast_mode=True)


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("case", ["rectangle", "window", "left padding"])
def test_the_gradient_of_one_argument_alone(attend, case, which):
    """The others ask for none, as in a frozen layer."""
    shape, sight = CASES[case]
    leaves = [t.requires_grad_(i == which) for i, t in enumerate(t.detach() for t in leaves_of(**shape))]
    assert torch.autograd.gradcheck(partial(attend, **sight), leaves, fast_mode=True)


@pytest.mark.parametrize("case", SECOND)
def test_second_derivatives_of_the_reference(case):
    shape, sight = CASES[case]
    function = partial(diff_attention, backend="reference", **sight)
    assert torch.autograd.gradgradcheck(function, leaves_of(**shape), fast_mode=True)
