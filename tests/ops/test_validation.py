"""Every wrong argument is a ValueError that names it, says what was expected and what came."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import zeros

from diffattn.errors import UnsupportedBackendError
from diffattn.ops import Backend, diff_attention, explain_backends
from diffattn.ops.dispatch import BACKENDS
from refusals import FUNCTIONS, SHAPES, WITH_DROPOUT, WITH_LAM, refuses, softmax, tensors

NAN, INF = float("nan"), float("inf")
A_FLOAT_TENSOR = "a float16, bfloat16, float32 or float64 tensor"


@pytest.mark.parametrize("name", ["q1", "q2", "k", "v"])
@pytest.mark.parametrize(
    ("wrong", "got"),
    [(None, "None"), ([1.0], "[1.0]"), (np.zeros((2, 4, 5, 8)), "array("), (3, "3"), ("x", "'x'"), (True, "True")]
    + [
        (zeros(2, 4, 5, 8, dtype=dtype), f"a {dtype} tensor of shape [2, 4, 5, 8] on cpu")
        for dtype in (torch.int64, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn)
    ],
)
def test_tensors_of_another_type(name, wrong, got):
    refuses([diff_attention, explain_backends], name, A_FLOAT_TENSOR, got, **{name: wrong})


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", ["q1", "q2", "k", "v"])
def test_tensors_that_are_not_dense_or_not_4d_or_empty(name):
    def refused(expected, got, wrong):
        refuses([diff_attention, explain_backends], name, expected, got, **{name: wrong})

    refused("a dense tensor", "on cpu as torch.sparse_coo", torch.randn(SHAPES[name]).to_sparse())
    refused("a dense tensor", "a nested tensor", torch.nested.nested_tensor([zeros(4, 5, 8)]))
    for shape in ((), (4, 5, 8), (1, 2, 4, 5, 8)):
        refused("4 dimensions [batch, heads, length, width]", str(list(shape)), torch.randn(shape))
    for shape in ((2, 0, 5, 8), (2, 4, 5, 0)):
        refused("at least one head and a width", str(list(shape)), torch.randn(shape))


@pytest.mark.parametrize("name", ["q2", "k", "v"])
def test_mixed_dtypes_and_devices(name):
    tensor = torch.randn(SHAPES[name])
    refuses([diff_attention], name, "torch.float32 as of the queries", "torch.float64", **{name: tensor.double()})
    refuses([diff_attention], name, "device cpu as of the queries", "on meta", **{name: tensor.to("meta")})


@pytest.mark.parametrize(
    ("name", "expected", "got", "changes"),
    [
        ("q2", "[2, Hn, 5, 8] to match q1", "[3, 4, 5, 8]", {"q2": (3, 4, 5, 8)}),
        ("q2", "[2, Hn, 5, 8] to match q1", "[2, 4, 6, 8]", {"q2": (2, 4, 6, 8)}),
        ("q2", "[2, Hn, 5, 8] to match q1", "[2, 4, 5, 9]", {"q2": (2, 4, 5, 9)}),
        ("q2", "[1, Hn, 5, 8] to match q1", "[2, 4, 5, 8]", {"q1": (1, 4, 5, 8)}),
        ("q2", "a number of noise heads that divides the 4 heads of q1", "3", {"q2": (2, 3, 5, 8)}),
        ("q2", "a number of noise heads that divides the 4 heads of q1", "8", {"q2": (2, 8, 5, 8)}),
        ("k", "a number of key/value heads that divides the 4 query heads", "3", {"k": (2, 3, 6, 8)}),
        ("k", "a number of key/value heads that divides the 1 query heads", "2", {"q2": (2, 1, 5, 8)}),
        ("k", "batch 2 as in the queries", "1", {"k": (1, 2, 6, 8)}),
        ("k", "width 8 as in the queries or 16 (signal key, then noise key)", "12", {"k": (2, 2, 6, 12)}),
    ],
)
def test_shapes_of_queries_and_keys(name, expected, got, changes):
    refuses(WITH_LAM, name, expected, got, **changes)


@pytest.mark.parametrize("shape", [(1, 2, 6, 8), (2, 1, 6, 8), (2, 2, 7, 8)])
def test_shape_of_values(shape):
    wanted = "[2, 2, 6] before its width, as in k"
    refuses(WITH_DROPOUT, "v", wanted, str(list(shape[:3])), v=shape)


def test_softmax_attention_names_its_own_arguments():
    refuses([softmax], "q", A_FLOAT_TENSOR, "None", q1=None)
    refuses([softmax], "q", "4 dimensions", "[4, 5, 8]", q1=(4, 5, 8))
    refuses([softmax], "k", "torch.float32 as of the queries", "torch.float64", k=torch.randn(2, 2, 6, 8).double())
    refuses([softmax], "k", "device cpu as of the queries", "on meta", k=torch.randn(2, 2, 6, 8).to("meta"))
    refuses([softmax], "k", "a number of key/value heads that divides the 3 query heads", "2", q1=(2, 3, 5, 8))
    refuses([softmax], "k", "batch 2 as in the queries", "3", k=(3, 2, 6, 8))
    refuses([softmax], "k", "width 8 as in the queries", "16", k=(2, 2, 6, 16))


@pytest.mark.parametrize("lam", [None, "a half", [0.5], np.zeros(()), 1j, True, False, NAN, INF, -INF, 1e39, 10**400])
def test_lam_is_a_finite_number(lam):
    refuses(WITH_LAM, "lam", "a finite number or a tensor", lam=lam)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_lam_tensor_is_floating_point(dtype):
    for shape in ((), (2, 4, 5)):
        refuses(WITH_LAM, "lam", "a number or a floating-point tensor", str(dtype), lam=zeros(shape, dtype=dtype))


def test_lam_tensor_has_the_device_the_layout_and_the_shape():
    refuses(WITH_LAM, "lam", "device cpu as of the queries", "on meta", lam=torch.rand((), device="meta"))
    refuses(WITH_LAM, "lam", "a dense tensor", "torch.sparse_coo", lam=torch.rand(2, 4, 5).to_sparse())
    for shape in [(4,), (4, 5), (3, 4, 5), (2, 3, 5), (2, 4, 6), (2, 4, 5, 1), (0, 4, 5)]:
        wanted = "a number, 0 dimensions, or [B, H, Tq] = [2, 4, 5] with each size full or 1"
        refuses(WITH_LAM, "lam", wanted, str(list(shape)), lam=torch.rand(shape))
    q = torch.randn(1, 4, 4, 8)
    refuses(WITH_LAM, "lam", "a number, 0 dimensions", "[4]", q1=q, q2=q, k=q, v=q, lam=torch.rand(4))


@pytest.mark.parametrize(
    "scale", [0, 0.0, -0.3, NAN, INF, 10**400, "x", [1.0], 1j, True, torch.tensor(0.1), np.ones(())]
)
def test_scale(scale):
    refuses(FUNCTIONS, "scale", "a finite number above 0", scale=scale)


@pytest.mark.parametrize("dropout_p", [None, "x", [0.1], 1j, NAN, -0.1, 1, 1.0, True, False, torch.tensor(0.1)])
def test_dropout(dropout_p):
    refuses(WITH_DROPOUT, "dropout_p", "a number, 0 <= dropout_p < 1", dropout_p=dropout_p)


@pytest.mark.parametrize("backend", [None, 1, True, "cuda", "AUTO", [], np.zeros(2), torch.tensor(1)])
def test_backend(backend):
    refuses([diff_attention], "backend", "one of " + ", ".join(Backend), backend=backend)


@pytest.mark.parametrize("name", ["windows", "backend"])
def test_explain_backends_says_which_keywords_there_are(name):
    known = "one; those that may follow lam are causal, window, mask, k_lengths, segment_ids, scale, dropout_p"
    refuses([explain_backends], name, "no such argument", known, **{name: "auto"})


def test_a_named_backend_that_cannot_serve_says_why(monkeypatch):
    monkeypatch.setattr(BACKENDS[Backend.SDPA], "why_not", lambda _: ["no GPU", "float32"])
    with pytest.raises(ValueError, match=r"^backend 'sdpa' cannot serve these inputs: no GPU; float32\.") as caught:
        diff_attention(**tensors(), backend="sdpa")
    assert isinstance(caught.value, UnsupportedBackendError)
    assert (caught.value.backend, caught.value.reasons) == ("sdpa", ["no GPU", "float32"])
