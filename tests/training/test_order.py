"""The order of tokens: a matter of seed and settings alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diffattn.data import TokenBlocks
from diffattn.training.order import OrderedBlocks, block_order
from tiny import SETTINGS


def test_every_epoch_sees_every_block_once():
    order = block_order(7, 20, seed=3)
    assert len(order) == 20
    assert sorted(order[:7]) == sorted(order[7:14]) == list(range(7))
    assert list(order[:7]) != list(order[7:14])


def test_the_seed_decides():
    assert np.array_equal(block_order(50, 50, 1), block_order(50, 50, 1))
    assert not np.array_equal(block_order(50, 50, 1), block_order(50, 50, 2))


def test_a_shorter_training_begins_alike():
    assert np.array_equal(block_order(50, 30, 1), block_order(50, 120, 1)[:30])


def test_the_data_set_is_exactly_one_training():
    blocks = TokenBlocks(np.arange(16 * 9), 16)
    examples = OrderedBlocks(blocks, replace(SETTINGS, gradient_accumulation=2, tokens=16 * 2 * 2 * 5))
    assert len(examples) == 5 * 2 * 2
    first = examples[0]["input_ids"]
    assert first[0] == 16 * examples.order[0]
    assert examples[19]["labels"].shape == (16,)
