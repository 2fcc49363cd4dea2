"""The operator under compile, export, function transforms, meta tensors and inference mode."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from diffattn.ops import diff_attention
from diffattn.ops.blockwise import _attend, _attend_backward

BACKENDS = ("reference", "sdpa")
LENGTHS = torch.tensor([9, 4])
RESTRICTIONS = {
    "causal": {},
    "all seen": {"causal": False},
    "window": {"window": 3},
    "lengths": {"k_lengths": LENGTHS},
    "padding": {"mask": torch.arange(9) >= torch.tensor([[0], [2]])},
    "segments": {"segment_ids": (torch.zeros(2, 5, dtype=torch.long), torch.tensor([[1] * 4 + [0] * 5] * 2))},
}


def inputs(Tq=5, Tk=9, pair=False, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    width = 16 if pair else 8
    shapes = ((2, 4, Tq, 8), (2, 4, Tq, 8), (2, 2, Tk, width), (2, 2, Tk, width), (2, 4, Tq))
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def call(restrictions, backend):
    return lambda *x: diff_attention(*x, backend=backend, **restrictions)


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", RESTRICTIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiles_whole_with_gradients(backend, name):
    x = [t.requires_grad_() for t in inputs()]
    function = call(RESTRICTIONS[name], backend)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    expected, out = function(*x), compiled(*x)
    torch.testing.assert_close(out, expected)
    for got, want in zip(torch.autograd.grad(out.sum(), x), torch.autograd.grad(expected.sum(), x), strict=True):
        torch.testing.assert_close(got, want)


def test_compiles_with_inductor():
    x = [t.requires_grad_() for t in inputs(dtype=torch.float32)]
    function = call({"window": 3, "k_lengths": LENGTHS}, "sdpa")
    out = torch.compile(function, fullgraph=True)(*x)
    torch.testing.assert_close(out, function(*x))
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.sum(), x))


@pytest.mark.parametrize("queries", ["one", "a chunk", "all"])
@pytest.mark.parametrize("restrictions", [{}, {"window": 12}, {"causal": False}])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_growing_cache_is_compiled_once(backend, restrictions, queries):
    restrictions = {**restrictions, "window": (12, 3)} if "causal" in restrictions else restrictions
    compiled = torch.compile(call(restrictions, backend), fullgraph=True, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for length in (9, 10, 11, 12, 13, 40, 200):
            x = inputs(Tq={"one": 1, "a chunk": 5, "all": length}[queries], Tk=length)
            for t in (x[2], x[3]):
                torch._dynamo.mark_dynamic(t, 2)
            for t in (x[0], x[1], x[4]) if queries == "all" else ():
                torch._dynamo.mark_dynamic(t, 2)
            torch.testing.assert_close(compiled(*x), call(restrictions, backend)(*x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_static_cache_whose_lengths_grow_is_compiled_once(backend):
    compiled = torch.compile(
        lambda n, *x: diff_attention(*x, k_lengths=n, backend=backend), fullgraph=True, backend="aot_eager"
    )
    x = inputs(Tq=1, Tk=32, dtype=torch.float32)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for length in (1, 2, 31, 32):
            lengths = torch.tensor([length, max(length // 2, 1)])
            expected = diff_attention(*x, k_lengths=lengths, backend=backend)
            torch.testing.assert_close(compiled(lengths, *x), expected)


class Attend(nn.Module):
    def __init__(self, restrictions, backend):
        super().__init__()
        self.arguments = {**restrictions, "backend": backend}

    def forward(self, q1, q2, k, v, lam):
        return diff_attention(q1, q2, k, v, lam, **self.arguments)


@pytest.mark.parametrize("restrictions", [{}, {"window": 3}])
@pytest.mark.parametrize("backend", BACKENDS)
def test_exports_with_a_dynamic_length(backend, restrictions):
    keys = torch.export.Dim("keys", min=6, max=4096)
    shapes = {"q1": None, "q2": None, "k": {2: keys}, "v": {2: keys}, "lam": None}
    module = Attend(restrictions, backend)
    program = torch.export.export(module, tuple(inputs()), dynamic_shapes=shapes)
    for length in (9, 31, 300):
        x = inputs(Tk=length)
        torch.testing.assert_close(program.module()(*x), module(*x))


@pytest.mark.parametrize("name", RESTRICTIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_vmap_equals_a_loop(backend, name):
    x = [torch.stack((t, t.flip(0), t * 0.5)) for t in inputs()]
    function = call(RESTRICTIONS[name], backend)
    expected = torch.stack([function(*(t[i] for t in x)) for i in range(3)])
    torch.testing.assert_close(torch.func.vmap(function)(*x), expected)


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_vmap_over_some_arguments_and_other_dimensions(backend, pair):
    q1, q2, k, v, lam = inputs(pair=pair)
    many = torch.stack((q1, q1 * 0.5, q1 + 1), dim=2)
    lams = torch.stack((lam, -lam, lam + 1), dim=-1)
    function = call({"window": 4}, backend)
    expected = torch.stack([function(many[:, :, i], q2, k, v, lams[..., i]) for i in range(3)])
    out = torch.func.vmap(function, in_dims=(2, None, None, None, -1))(many, q2, k, v, lams)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [{"Tq": 9}, {}, {"Tq": 1}])
@pytest.mark.parametrize("name", ["causal", "window", "padding", "lengths"])
def test_gradients_a_sample(name, shape, dtype):
    """`vmap` over `grad`, as per-sample gradients are taken."""
    samples = [torch.stack((t, t.flip(0))) for t in inputs(**shape, dtype=dtype)]
    function = call(RESTRICTIONS[name], "sdpa")

    def loss(*x):
        return function(*x).square().sum()

    got = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2, 3, 4)))(*samples)
    for i in range(2):
        leaves = [t[i].detach().requires_grad_() for t in samples]
        for g, want in zip(got, torch.autograd.grad(loss(*leaves), leaves), strict=True):
            torch.testing.assert_close(g[i], want)


@pytest.mark.parametrize("name", ["causal", "all seen", "window", "padding", "lengths", "segments"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_meta_tensors_have_the_shape_and_no_data(backend, name):
    def to_meta(value):
        if isinstance(value, tuple) and isinstance(value[0], torch.Tensor):
            return tuple(to_meta(part) for part in value)
        return value.to("meta") if isinstance(value, torch.Tensor) else value

    x = [t.to("meta").requires_grad_() for t in inputs()]
    restrictions = {key: to_meta(value) for key, value in RESTRICTIONS[name].items()}
    out = diff_attention(*x, backend=backend, **restrictions)
    assert (out.shape, out.device.type) == ((2, 4, 5, 8), "meta")
    assert [g.shape for g in torch.autograd.grad(out.sum(), x)] == [t.shape for t in x]


@pytest.mark.parametrize("name", RESTRICTIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_inference_mode(backend, name):
    expected = call(RESTRICTIONS[name], backend)(*inputs())
    with torch.inference_mode():
        torch.testing.assert_close(call(RESTRICTIONS[name], backend)(*inputs()), expected)


def test_second_derivatives_of_the_reference():
    q1, q2, k, v, lam = inputs(Tq=3, Tk=4)
    small = (q1[:1, :2, :, :4], q2[:1, :2, :, :4], k[:1, :1, :, :4], v[:1, :1, :, :3], lam[:1, :2])
    leaves = [t.detach().requires_grad_() for t in small]
    for restrictions in ({}, {"window": 2}, {"mask": torch.tensor([[False, True, True, True]])}):
        assert torch.autograd.gradgradcheck(call(restrictions, "reference"), leaves)


def test_torchs_own_check_of_the_operators():
    """Schema, fake, gradient registration, and tracing with dynamic shapes."""
    q, k, v = (torch.randn(shape, dtype=torch.float64) for shape in ((2, 2, 2, 5, 8), (2, 2, 9, 8), (2, 2, 9, 8)))
    ids = torch.tensor([[0] * 4 + [1] * 5] * 2)
    sinks = torch.randn(2, 2, 2, dtype=torch.float64, requires_grad=True)
    lengths, documents = (None, LENGTHS, None, None, True, [3]), (None, None, ids[:, 4:], ids, True, None)
    for rest in ((None, *lengths), (None, *documents), (sinks, *documents)):
        arguments = (q.clone().requires_grad_(), k.clone().requires_grad_(), v.clone().requires_grad_(), *rest, 0.3)
        torch.library.opcheck(_attend, arguments)
        out, lse = _attend(q, k, v, *rest, 0.3)
        plain = [x.detach() if isinstance(x, torch.Tensor) else x for x in (out, lse, q, k, v, *rest)]
        torch.library.opcheck(_attend_backward, (torch.randn_like(plain[0]), *plain, 0.3))
