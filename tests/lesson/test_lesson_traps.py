"""The traps of part 2: what goes wrong, by how much, and that the lesson's own operator does not."""

from __future__ import annotations

import math
import random

import pytest
import torch

from diffattn.lesson.parts.traps import bfloat16, changes_by_a_later_key, rounding_errors, weights_on_later_keys


def test_rounding_is_torchs():
    rng = random.Random(1)
    values = [rng.gauss(0, 1) * 10 ** rng.uniform(-6, 6) for _ in range(2_000)] + [0.0, 1.0, 1 + 2**-8, 1 + 3 * 2**-8]
    values = torch.tensor(values, dtype=torch.float32).tolist()
    assert [bfloat16(x) for x in values] == torch.tensor(values).bfloat16().tolist()


def test_rounding_before_the_subtraction_loses_what_the_maps_differ_by():
    each, once = rounding_errors()
    assert 1.3 < each < 2.2
    assert once < 0.003


def test_a_mask_after_the_subtraction_leaks():
    late, first = changes_by_a_later_key()
    assert late > 0.05
    assert first == 0


def test_a_mask_on_one_map_leaks():
    one, both = weights_on_later_keys()
    assert one < -0.1
    assert both == 0


def test_the_table_of_traps(steps):
    rows = {row[0]: row[2:] for row in steps["Traps in code"].table.rows}
    assert rows["causal mask aligned to the upper left"] == (1, 4)
    assert [math.isnan(rows[name][0]) for name in rows if "nan" in name or "added" in name] == [True, True]
    assert rows["one mask of the lowest float"] == (pytest.approx(1), 0)
    assert rows["a nan in a masked value, weighed with 0"][1] == 1
