"""Every wrong argument is a ValueError that names it."""

from __future__ import annotations

import pytest
import torch

from diffattn.errors import UnsupportedBackendError
from diffattn.ops import diff_attention, softmax_attention


def tensors(**changes):
    shapes = {"q1": (2, 4, 5, 8), "q2": (2, 4, 5, 8), "k": (2, 2, 5, 8), "v": (2, 2, 5, 8)}
    return {name: torch.randn(*changes.get(name, shape)) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("changes", "named", "said"),
    [
        ({"q1": (2, 33, 5, 8), "q2": (2, 33, 5, 8)}, "k", "2 key/value heads must divide the 33"),
        ({"q2": (2, 3, 5, 8)}, "q2", "3 noise heads must divide the 4"),
        ({"q2": (2, 4, 6, 8)}, "q2", "to match q1"),
        ({"q2": (2, 2, 5, 8), "k": (2, 4, 5, 8), "v": (2, 4, 5, 8)}, "k", "4 key/value heads must divide the 2"),
        ({"k": (2, 2, 5, 12)}, "k", "expected width 8 .*or 16"),
        ({"k": (3, 2, 5, 8)}, "k", "expected batch 2"),
        ({"v": (2, 2, 6, 8)}, "v", r"expected \[2, 2, 5\]"),
        ({"q1": (4, 5, 8)}, "q1", "4 dimensions"),
        ({"q1": (2, 0, 5, 8)}, "q1", "at least one head"),
        ({"q1": (2, 4, 5, 0), "q2": (2, 4, 5, 0)}, "q1", "at least one head and a width"),
    ],
)
def test_shapes(changes, named, said):
    with pytest.raises(ValueError, match=rf"^{named}: .*{said}"):
        diff_attention(**tensors(**changes), lam=0.5)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"mask": torch.ones(2, 5)}, "mask"),
        ({"mask": torch.ones(5, 5).bool()}, "mask"),
        ({"mask": torch.ones(2, 4, 5, 6).bool()}, "mask"),
        ({"mask": torch.ones(2, 5).bool().to("meta")}, "mask"),
        ({"k_lengths": torch.tensor([1.0, 2.0])}, "k_lengths"),
        ({"k_lengths": torch.tensor([5])}, "k_lengths"),
        ({"segment_ids": torch.zeros(2, 5)}, "segment_ids"),
        ({"segment_ids": (torch.zeros(2, 5).long(), torch.zeros(2, 4).long())}, "segment_ids"),
        ({"window": 0}, "window"),
        ({"window": (1, 1)}, "window"),
        ({"window": 3, "causal": False}, "window"),
        ({"window": (-1, 1), "causal": False}, "window"),
        ({"dropout_p": 1.0}, "dropout_p"),
        ({"scale": 0.0}, "scale"),
        ({"scale": -0.3}, "scale"),
        ({"scale": float("nan")}, "scale"),
        ({"scale": torch.tensor(0.1)}, "scale"),
        ({"lam": torch.rand(4)}, "lam"),
        ({"lam": torch.rand(2, 4, 6)}, "lam"),
        ({"lam": torch.tensor(1)}, "lam"),
        ({"lam": "a half"}, "lam"),
        ({"lam": torch.rand((), device="meta")}, "lam"),
        ({"backend": "cuda"}, "backend"),
    ],
)
def test_arguments(arguments, named):
    with pytest.raises(ValueError, match=rf"^{named}: .*expected"):
        diff_attention(**{**tensors(), "lam": 0.5, **arguments})


def test_lam_of_shape_h_is_refused_even_where_h_equals_tq():
    q = torch.randn(1, 4, 4, 8)
    with pytest.raises(ValueError, match=r"^lam"):
        diff_attention(q, q, q, q, torch.rand(4))


def test_mask_of_two_dimensions_is_key_padding_even_where_b_equals_t():
    q = torch.randn(3, 2, 3, 8)
    mask = torch.tensor([[1, 0, 1], [1, 1, 0], [1, 1, 1]]).bool()
    padding = diff_attention(q, q, q, q, 0.5, mask=mask)
    assert torch.equal(padding, diff_attention(q, q, q, q, 0.5, mask=mask[:, None, None, :]))


@pytest.mark.parametrize("name", ["q2", "k", "v"])
def test_mixed_dtypes_and_devices(name):
    for other in ({"dtype": torch.float64}, {"device": "meta"}):
        inputs = tensors()
        inputs[name] = inputs[name].to(**other)
        with pytest.raises(ValueError, match=rf"^{name}: expected the d"):
            diff_attention(**inputs, lam=0.5)


def test_softmax_attention_checks_too():
    with pytest.raises(ValueError, match=r"^k: .*divide"):
        softmax_attention(torch.randn(1, 3, 4, 8), torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 8))


def test_unsupported_backend_error_is_a_value_error_with_reasons():
    error = UnsupportedBackendError("flash", ["no GPU", "float32"])
    assert isinstance(error, ValueError)
    assert error.reasons == ["no GPU", "float32"]
    assert "no GPU; float32" in str(error)
