"""The heads of a model, from made-up rows."""

from __future__ import annotations

import io
import math
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from diffattn.report.drawing import PAPER
from diffattn.report.heat import FULLEST
from diffattn.report.noise_document import markdown
from diffattn.report.noise_heads import brief_head_tables, head_drawings, head_table
from diffattn.report.noise_page import render_noise
from pages import assert_labelled, assert_self_contained

LAYERS, HEADS = 3, 4


def made_up(**changes: Any) -> list[dict[str, Any]]:
    """Each length, layer and head has a number of its own."""
    return [
        {
            "length": length,
            "layer": layer,
            "head": head,
            "answer_mass": (1 + layer + LAYERS * head) / (length / 10),
            "sink_mass": 0.125,
            "rest_mass": 0.5 + 0.01 * layer,
            "negative_mass": 0.0625,
            "margin": 4.5,
            "strength": 1.25,
            "correlation": 0.3 - 0.2 * layer,
            "lambda": 0.75,
            "signal_to_noise": 1234.5,
            **changes,
        }
        for length in (256, 64)
        for head in range(HEADS)
        for layer in range(LAYERS)
    ]


def test_the_table_is_in_order_and_counts_from_one() -> None:
    table = head_table(made_up())
    assert [row[:3] for row in table.rows[:5]] == [
        ("64", "1", "1"),
        ("64", "1", "2"),
        ("64", "1", "3"),
        ("64", "1", "4"),
        ("64", "2", "1"),
    ]
    cells = ("no", "0.156", "0.125", "0.500", "0.0625", "4.50", "1.25", "0.300", "0.750", "1,234")
    assert table.rows[0][3:] == cells
    assert all(len(row) == len(table.head) for row in table.rows)


def test_possible_gains_have_a_column_for_each_correlation() -> None:
    gains = [{"correlation": 0.9, "gain": 3.5}, {"correlation": 0.0, "gain": 1.25}]
    table = head_table([*made_up(possible_gains=gains, finds_answer=True), *made_up(length=32)])
    assert table.head[-2:] == ("Possible gain at correlation 0", "Possible gain at correlation 0.9")
    ends = {row[0]: (row[3], *row[-2:]) for row in table.rows}
    assert ends["64"] == ("yes", "1.25", "3.50")
    assert ends["32"] == ("no", "–", "–")  # noqa: RUF001


def test_the_terminal_gets_the_lengths_and_the_heads_nearest_to_the_answer() -> None:
    results = {"heads": made_up(), "lengths": [{"length": 64, "copied": 0.5, "finding": 3, "answer_mass": None}]}
    lengths, heads = brief_head_tables(results)
    assert lengths.head == ("Length", "Probes copied", "Heads that find the answer")
    assert lengths.rows == (("64", "0.500", "3"),)
    assert [row[:3] for row in heads.rows[:2]] == [("256", "3", "4"), ("256", "2", "4")]
    assert len(heads.rows) == LAYERS * HEADS
    assert brief_head_tables({"rows": []}) == []


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_what_is_not_finite_is_a_dash_and_no_map(bad: float | None) -> None:
    rows = made_up(correlation=bad)
    assert "Correlation" not in head_table(rows).head
    mixed = head_table([*rows, *made_up(length=32)])
    column = mixed.head.index("Correlation")
    assert {row[column] for row in mixed.rows if row[0] != "32"} == {"–"}  # noqa: RUF001
    assert [drawing.name for drawing in head_drawings(rows)] == ["heads-answer-mass", "heads-rest-mass"]


def test_maps_are_of_the_longest_or_the_length_asked_for() -> None:
    longest, shorter = head_drawings(made_up()), head_drawings(made_up(), length=64)
    assert "at 256 tokens" in longest[0].title
    assert "largest in layer 3 head 4 (0.469), layer 2 head 4 (0.430) and layer 1 head 4 (0.391)" in longest[0].alt
    assert "at 64 tokens" in shorter[0].title
    assert "layer 3 head 4 (1.88)" in shorter[0].alt
    assert head_drawings([]) == []


def test_a_map_has_a_cell_for_each_head_fuller_the_larger() -> None:
    correlation = head_drawings(made_up())[2]
    [axes] = correlation.draw(PAPER).axes
    assert len(axes.patches) == LAYERS * HEADS
    alphas = {patch.get_y() + 0.5: patch.get_facecolor()[3] for patch in axes.patches}
    assert alphas[0] == pytest.approx(FULLEST)
    assert alphas[1] == pytest.approx(FULLEST / 3)
    colours = {patch.get_y() + 0.5: patch.get_facecolor()[:3] for patch in axes.patches}
    assert colours[0] == colours[1] != colours[2]  # the last layer's correlation is below 0
    assert [text.get_text() for text in axes.texts][::HEADS] == ["0.300", "0.100", "-0.100"]


def test_maps_are_valid_as_files_and_in_a_page() -> None:
    for drawing in head_drawings(made_up()):
        found = drawing.files()
        Image.open(io.BytesIO(found[f"{drawing.name}.png"])).load()
        assert drawing.title in " ".join(ElementTree.fromstring(found[f"{drawing.name}.svg"]).itertext())
    results = {"kind": "noise", "heads": made_up()}
    page = render_noise(results)
    assert_labelled(page)
    assert_self_contained(page)
    assert page.count("<figure>") == 3
    assert "## The heads" in markdown(results)
