"""What the fused path builds: no Tq x Tk matrix, no copy of K or V, one call in decoding."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from diffattn.ops import diff_attention, explain_backends
from diffattn.ops.fused import _lower_right, fused_cost
from diffattn.ops.tiles import BLOCK
from diffattn.ops.types import Sight

T, D = 2048, 8
KERNEL = "aten::_scaled_dot_product_flash_attention_for_cpu"


class Watch:
    """Records what torch runs, inside of operators too: how often, and the largest allocation in bytes."""

    def __enter__(self):
        self.profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self.profile.__enter__()
        return self

    def __exit__(self, *error):
        self.profile.__exit__(*error)
        self.events = list(self.profile.events())

    def count(self, name):
        return sum(event.name == name for event in self.events)

    @property
    def largest(self):
        return max(event.self_cpu_memory_usage for event in self.events)


def inputs(B=1, H=2, Hkv=1, Tq=T, Tk=T, pair=False, grad=True):
    width = 2 * D if pair else D
    shapes = [(B, H, Tq, D)] * 2 + [(B, Hkv, Tk, width)] * 2
    return [torch.randn(*shape).requires_grad_(grad) for shape in shapes]


SEGMENTS = torch.arange(T)[None] // 100
RESTRICTIONS = {
    "causal": {},
    "window": {"window": 40},
    "two-sided window": {"causal": False, "window": (30, 20)},
    "segments": {"segment_ids": (SEGMENTS, SEGMENTS)},
    "segments of one token": {"segment_ids": (torch.arange(T)[None], torch.arange(T)[None])},
    "segments and window": {"segment_ids": (SEGMENTS, SEGMENTS), "window": 40},
    "lengths": {"k_lengths": torch.tensor([1300])},
    "padding": {"mask": torch.arange(T)[None] >= 100},
}


@pytest.mark.parametrize("Tq", [T, T // 2])
@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("name", RESTRICTIONS)
def test_no_matrix_is_built(name, pair, Tq):
    x = inputs(Tq=Tq, pair=pair)
    arguments = dict(RESTRICTIONS[name])
    if "segment_ids" in arguments:
        arguments["segment_ids"] = (arguments["segment_ids"][0][:, T - Tq :], arguments["segment_ids"][1])
    with Watch() as watch:
        diff_attention(*x, 0.5, backend="sdpa", **arguments).sum().backward()
    assert watch.largest < Tq * T * 4 / 2  # half of one map; a block's mask is at most BLOCK x T
    assert watch.count(f"{KERNEL}_backward") > 0
    assert watch.count("aten::_softmax") == 0


def test_the_watch_sees_a_matrix():
    with Watch() as watch:
        diff_attention(*inputs(), 0.5, backend="reference")
    assert watch.largest >= T * T * 4
    with Watch() as watch:
        diff_attention(*inputs(), 0.5, dropout_p=0.1, backend="sdpa")
    assert watch.largest >= T * T * 4


@pytest.mark.parametrize("pair", [False, True])
def test_decoding_is_one_call_that_copies_neither_keys_nor_values(pair):
    x = inputs(H=8, Hkv=2, Tq=1, Tk=4096, pair=pair, grad=False)
    for arguments in ({}, {"k_lengths": torch.tensor([4000])}, {"window": 3000}):
        with Watch() as watch:
            diff_attention(*x, torch.rand(1, 8, 1), backend="sdpa", **arguments)
        assert watch.count(KERNEL) == 1
        assert watch.largest < x[2].nbytes // 2
        assert watch.count("aten::masked_fill") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"k_lengths": torch.tensor([2000, 100])},
        {"mask": torch.arange(T) >= torch.tensor([[0], [77]])},
        {"mask": torch.arange(T) < torch.tensor([[T], [77]])},
        {"causal": False, "mask": torch.arange(T) < torch.tensor([[T], [77]])},
        {"segment_ids": (SEGMENTS.expand(2, T), SEGMENTS.expand(2, T))},
        {"window": T},
    ],
)
def test_what_causal_can_express_stays_on_the_kernel_without_a_mask(arguments):
    with Watch() as watch:
        diff_attention(*inputs(B=2, grad=False), 0.5, backend="sdpa", **arguments)
    assert watch.count(KERNEL) > 1
    assert watch.count("diffattn::blockwise_attention") == 1
    assert watch.count("aten::masked_fill_") == 0  # what a block's mask is written with


def test_an_arbitrary_mask_is_written_block_by_block():
    mask = torch.eye(T).bool() | (torch.rand(T, T, generator=torch.Generator().manual_seed(0)) > 0.5)
    with Watch() as watch:
        diff_attention(*inputs(grad=False), 0.5, mask=mask[None, None], backend="sdpa")
    assert watch.count("aten::masked_fill_") == T // BLOCK


def test_explain_backends_states_costs():
    q1, q2, k, v = inputs()
    report = explain_backends(q1, q2, k, v, 0.5)
    assert report.auto == "sdpa"
    assert report.reasons == {"sdpa": [], "reference": []}
    assert set(report.costs) == {"reference"}
    assert "sdpa" not in explain_backends(q1, q2, k, v, 0.5, window=4).costs
    assert "mask on cuda" in fused_cost(Sight(q_length=T, k_length=T, causal=True, window=4), torch.device("cuda"))
    assert "dropout" in explain_backends(q1, q2, k, v, 0.5, dropout_p=0.1).costs["sdpa"]
    padding = torch.ones(1, T).bool()
    assert "sdpa" not in explain_backends(q1, q2, k, v, 0.5, causal=False, mask=padding).costs
    assert "auto takes sdpa" in str(report)


def test_the_path_of_gpus_for_fewer_queries_than_keys():
    """Torch's lower right alignment; on the CPU it builds the mask, which shows the values alone."""
    q1, _, k, v = inputs(H=4, Hkv=2, Tq=5, Tk=9, grad=False)
    expected = diff_attention(q1, q1, k, v, 0.0, backend="reference")
    torch.testing.assert_close(_lower_right([q1], k, v, D**-0.5)[0].flatten(1, 2), expected)
    with FlopCounterMode(display=False):  # a dispatch mode, under which torch does not make its causal bias
        torch.testing.assert_close(_lower_right([q1], k, v, D**-0.5)[0].flatten(1, 2), expected)
