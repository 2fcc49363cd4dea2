"""Every wrong restriction of what a query sees is a ValueError, as in `test_validation.py`."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import zeros
from torch._dynamo.testing import CompileCounter

from diffattn.ops import Backend, diff_attention
from diffattn.ops.validation import validate_sight
from refusals import FUNCTIONS, refuses, tensors

LENGTHS = torch.tensor([3, 4])
Q_IDS, K_IDS = zeros(2, 5).long(), zeros(2, 6).long()


@pytest.mark.parametrize("causal", [None, 0, 1, 1.0, "yes", [], np.bool_(True), torch.tensor(True), zeros(2).bool()])
def test_causal(causal):
    refuses(FUNCTIONS, "causal", "True or False", causal=causal)


@pytest.mark.parametrize("window", [0, -1, True, False, 2.0, "x", (1, 1), [2], torch.tensor(2), np.int64(2)])
def test_window_with_causal(window):
    refuses(FUNCTIONS, "window", "with causal=True an int of 1 or more (keys seen, itself included)", window=window)


@pytest.mark.parametrize(
    "window",
    [3, True, "xy", [1, 2], (), (1,), (1, 2, 3), (-1, 1), (1, -1), (1.0, 1), (True, 1), (None, 1), torch.ones(2)],
)
def test_window_without_causal(window):
    wanted = "with causal=False (left, right), two ints of 0 or more"
    refuses(FUNCTIONS, "window", wanted, causal=False, window=window)


@pytest.mark.parametrize("size", [10**9, sys.maxsize, 10**30])
@pytest.mark.parametrize("backend", list(Backend))
def test_a_window_of_any_size_hides_nothing(size, backend):
    inputs = tensors(backend=backend)
    for causal, window in ((True, size), (False, (size, size))):
        torch.testing.assert_close(
            diff_attention(**inputs, causal=causal, window=window), diff_attention(**inputs, causal=causal)
        )


def test_a_cache_that_grows_past_the_window_is_compiled_once():
    counter = CompileCounter()

    @torch.compile(backend=counter, fullgraph=True, dynamic=True)
    def validated(q, k):
        nothing = dict.fromkeys(("mask", "k_lengths", "segment_ids"))
        return q + validate_sight(q, k, causal=True, window=9, **nothing).k_length

    for length in (7, 8, 9, 10, 11):
        validated(zeros(1, 2, 3, 8), zeros(1, 2, length, 8))
    assert counter.frame_count == 1


@pytest.mark.parametrize("mask", [1, True, "x", [True], np.ones((2, 6), bool), zeros(2, 6), zeros(2, 6).byte()])
def test_mask_is_a_bool_tensor(mask):
    refuses(FUNCTIONS, "mask", "a bool tensor (True: may attend)", mask=mask)


def test_mask_has_the_device_the_layout_and_the_shape():
    mask = zeros(2, 6).bool()
    refuses(FUNCTIONS, "mask", "device cpu as of the queries", "on meta", mask=mask.to("meta"))
    refuses(FUNCTIONS, "mask", "a dense tensor", "torch.sparse_coo", mask=mask.to_sparse())
    wanted = "[B, Tk] = [2, 6] or 4 dimensions broadcasting to [B, H, Tq, Tk] = [2, 4, 5, 6]"
    flat = [(), (6,), (5, 6), (1, 6), (2, 1), (2, 5, 6), (1, 2, 4, 5, 6)]
    for shape in [*flat, (3, 1, 1, 6), (2, 3, 1, 6), (2, 1, 4, 6), (2, 1, 5, 5), (2, 1, 0, 6)]:
        refuses(FUNCTIONS, "mask", wanted, str(list(shape)), mask=zeros(shape).bool())


def test_mask_of_two_dimensions_is_key_padding_even_where_b_equals_t():
    q = torch.randn(3, 2, 3, 8)
    mask = torch.tensor([[1, 0, 1], [1, 1, 0], [1, 1, 1]]).bool()
    padding = diff_attention(q, q, q, q, 0.5, mask=mask)
    assert torch.equal(padding, diff_attention(q, q, q, q, 0.5, mask=mask[:, None, None, :]))


@pytest.mark.parametrize(
    "k_lengths", [3, "x", True, [3, 4], (3, 4), np.ones(2, int), LENGTHS.float(), LENGTHS.char(), LENGTHS.bool()]
)
def test_k_lengths_are_an_integer_tensor(k_lengths):
    refuses(FUNCTIONS, "k_lengths", "an int32 or int64 tensor", k_lengths=k_lengths)


def test_k_lengths_have_the_device_the_layout_and_the_shape_and_are_bounded():
    refuses(FUNCTIONS, "k_lengths", "device cpu as of the queries", "on meta", k_lengths=LENGTHS.to("meta"))
    refuses(FUNCTIONS, "k_lengths", "a dense tensor", "torch.sparse_coo", k_lengths=LENGTHS.to_sparse())
    for wrong in (torch.tensor(3), LENGTHS[:1], LENGTHS[:, None]):
        refuses(FUNCTIONS, "k_lengths", "shape [B] = [2]", str(list(wrong.shape)), k_lengths=wrong)
    inputs = tensors()
    beyond, bounded = (diff_attention(**inputs, k_lengths=torch.tensor(x)) for x in ([-1, 99], [0, 6]))
    assert torch.equal(beyond, bounded)


@pytest.mark.parametrize("segment_ids", [1, "xy", [Q_IDS, K_IDS], Q_IDS, (), (Q_IDS,), (Q_IDS, K_IDS, K_IDS)])
def test_segment_ids_are_a_pair(segment_ids):
    refuses(FUNCTIONS, "segment_ids", "a tuple (q_ids [B, Tq], k_ids [B, Tk])", segment_ids=segment_ids)


@pytest.mark.parametrize(("place", "name", "length"), [(0, "q_ids", 5), (1, "k_ids", 6)])
def test_each_of_the_segment_ids(place, name, length):
    def refused(expected, got, wrong):
        pair = (wrong, K_IDS) if place == 0 else (Q_IDS, wrong)
        refuses(FUNCTIONS, "segment_ids", expected, got, segment_ids=pair)

    right = zeros(2, length).long()
    for wrong in (None, [1], np.zeros((2, length), int), right.float(), right.bool(), right.byte()):
        refused(f"{name} as an int32 or int64 tensor", "", wrong)
    refused("device cpu as of the queries", "on meta", right.to("meta"))
    refused("a dense tensor", "torch.sparse_coo", right.to_sparse())
    for shape in ((length,), (1, length), (3, length), (2, length + 1), (2, length, 1)):
        refused(f"{name} of shape [2, {length}]", str(list(shape)), zeros(shape).long())
