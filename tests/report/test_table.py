"""The table's cells: means, ranges, dashes, and runs that broke down."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from diffattn.report.table import COLUMNS, rows
from diffattn.report.wording import bytes_text, count, decimals_for, finite, join_words, number, signed

Results = dict[str, Any]


def cell(results: Results, variant: str, title: str) -> str:
    column = next(index for index, column in enumerate(COLUMNS) if column.title == title)
    return str(rows(results)[results["variants"].index(variant)][column])


def set_bits(results: Results, variant: str, values: list[Any]) -> None:
    runs = [run for run in results["runs"] if run["variant"] == variant]
    for run, value in zip(runs, values, strict=True):
        run["evaluation"]["test"]["bits_per_byte"] = value


def test_one_row_a_variant_and_one_cell_a_column(results: Results) -> None:
    assert [str(row[0]) for row in rows(results)] == ["softmax (baseline)", "V1", "V2"]
    assert {len(row) for row in rows(results)} == {len(COLUMNS)}


def test_mean_with_lowest_and_highest(results: Results) -> None:
    set_bits(results, "v1", [2.0, 2.1, 2.6])
    assert cell(results, "v1", "Test bits a byte") == "2.2333 (2.0000 to 2.6000)"
    assert cell(results, "v1", "Parameters") == "1,319,872"
    assert cell(results, "v1", "Peak memory") == "700 MiB"


def test_speed_shows_median_and_middle_half(results: Results) -> None:
    results["speed"]["decode"]["v2"]["milliseconds_per_token"] = [1.0, 2.0, 3.0, 4.0, 100.0]
    assert cell(results, "v2", "Decoding, ms a token") == "3.00 (2.00 to 4.00)"
    assert cell(results, "v2", "Step time ratio") == "1.18 (1.16 to 1.20)"
    assert cell(results, "softmax", "Step time ratio") == "1"


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_a_broken_run_is_not_averaged_away(results: Results, bad: float | None) -> None:
    set_bits(results, "v1", [2.0, bad, 2.6])
    assert cell(results, "v1", "Test bits a byte") == "broke down (1 of 3 seeds)"


def test_missing_measures_are_dashes(results: Results, make: Callable[..., Results]) -> None:
    del results["speed"]
    for run in results["runs"]:
        run["training"]["peak_memory_bytes"] = None
        del run["evaluation"]["test"]
    dash = str(rows({"variants": ["v1"]})[0][1])
    titles = ("Step time ratio", "Decoding, ms a token", "Peak memory", "Test perplexity a word")
    assert {cell(results, "v2", title) for title in titles} == {dash}
    assert "to" not in cell(make(seeds=(0,)), "v1", "Test bits a byte")
    assert rows({}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (number(0.0123456), "0.01235"),
        (number(1234567.0), "1,234,567"),
        (number(914.43), "914.4"),
        (number(0), "0"),
        (count(1048576.4), "1,048,576"),
        (signed(-0.00001, 3), "0.000"),
        (signed(1234.5, 1), "+1,234.5"),
        (signed(-0.5, 2), "-0.50"),
        (bytes_text(3 * 2**30), "3.00 GiB"),
        (join_words(["a", "b", "c"]), "a, b and c"),
        (join_words(["a"]), "a"),
        (str(decimals_for([0.012, -0.5])), "3"),
        (str(decimals_for([0.00004, -0.02])), "5"),
        (str(decimals_for([250.0])), "0"),
        (
            str([finite(value) for value in (True, "1", None, math.nan, 10**400, 2)]),
            "[None, None, None, None, None, 2.0]",
        ),
    ],
)
def test_wording(text: str, expected: str) -> None:
    assert text == expected
