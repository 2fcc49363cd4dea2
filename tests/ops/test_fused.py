"""What the fused path builds: no Tq x Tk matrix for causal alone, no copy of K or V, one call in decoding."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from diffattn.ops import diff_attention, explain_backends

T, D = 512, 16


class Watch(TorchDispatchMode):
    """Records each operator called and the size of the largest tensor it makes."""

    def __init__(self):
        super().__init__()
        self.calls: list[tuple[str, int]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        made = [t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, torch.Tensor)]
        owned = [t.untyped_storage().nbytes() // t.element_size() for t in made if t.numel()]
        self.calls.append((func.__name__, max(owned, default=0)))
        return out

    def count(self, part):
        return sum(part in name for name, _ in self.calls)


def inputs(B=1, H=2, Hkv=1, Tq=T, Tk=T, pair=False, grad=True):
    width = 2 * D if pair else D
    shapes = [(B, H, Tq, D)] * 2 + [(B, Hkv, Tk, width)] * 2
    return [torch.randn(*shape).requires_grad_(grad) for shape in shapes]


@pytest.mark.parametrize("Tq", [T, T // 2])
@pytest.mark.parametrize("pair", [False, True])
def test_causal_alone_builds_no_matrix(pair, Tq):
    x = inputs(Tq=Tq, pair=pair)
    with Watch() as watch:
        diff_attention(*x, 0.5, backend="sdpa").sum().backward()
    largest = max(size for _, size in watch.calls)
    assert largest < Tq * T
    assert watch.count("flash_attention_for_cpu_backward") > 0
    assert watch.count("softmax") == 0


def test_the_watch_sees_a_matrix():
    with Watch() as watch:
        diff_attention(*inputs(), 0.5, backend="reference")
    assert max(size for _, size in watch.calls) >= T * T


@pytest.mark.parametrize("pair", [False, True])
def test_decoding_is_one_call_that_copies_neither_keys_nor_values(pair):
    x = inputs(H=8, Hkv=2, Tq=1, Tk=4096, pair=pair, grad=False)
    with Watch() as watch:
        diff_attention(*x, torch.rand(1, 8, 1), backend="sdpa")
    assert watch.count("_scaled_dot_product_flash_attention_for_cpu") == 1
    assert max(size for name, size in watch.calls if "view" not in name and "slice" not in name) < x[2].numel() // 2


def test_static_cache_is_cut_not_masked():
    x = inputs(Tq=1, Tk=4096, grad=False)
    with Watch() as watch:
        diff_attention(*x, 0.5, k_lengths=torch.tensor([100]), backend="sdpa")
    assert watch.count("where") == 0
    assert watch.count("_scaled_dot_product_flash_attention_for_cpu") == 1


def test_explain_backends_states_costs():
    q1, q2, k, v = inputs()
    report = explain_backends(q1, q2, k, v, 0.5)
    assert report.auto == "sdpa"
    assert report.reasons == {"sdpa": [], "reference": []}
    assert set(report.costs) == {"reference"}
    assert "mask" in explain_backends(q1, q2, k, v, 0.5, window=4).costs["sdpa"]
    assert "dropout" in explain_backends(q1, q2, k, v, 0.5, dropout_p=0.1).costs["sdpa"]
    padding = torch.ones(1, T).bool()
    assert "sdpa" not in explain_backends(q1, q2, k, v, 0.5, causal=False, mask=padding).costs
    assert "auto takes sdpa" in str(report)


def test_the_path_of_gpus_for_fewer_queries_than_keys():
    """Torch's lower right alignment; on the CPU it builds the mask, which shows the values alone."""
    from diffattn.ops.fused import _lower_right

    q1, _, k, v = inputs(H=4, Hkv=2, Tq=5, Tk=9, grad=False)
    expected = diff_attention(q1, q1, k, v, 0.0, backend="reference")
    torch.testing.assert_close(_lower_right([q1], k, v, D**-0.5)[0], expected)
    with FlopCounterMode(display=False):  # a dispatch mode, under which torch does not make its causal bias
        torch.testing.assert_close(_lower_right([q1], k, v, D**-0.5)[0], expected)
