"""Drawings from declared charts: each number in its place, gaps, signs, the answer, and eight variants told apart."""

from __future__ import annotations

import io
import math
from copy import deepcopy
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import cells, texts
from experiment_example import ANSWER, DEPTHS, DIVERGED, KEYS, LENGTHS, VARIANTS, accuracy, make_experiment
from PIL import Image

from diffattn.report.drawing import PAGE, PAPER, Drawing
from diffattn.report.experiment_charts import experiment_drawings
from diffattn.report.heat import FULLEST, Frame, Grid, draw_heat, heat_drawing, shade
from diffattn.report.maps import Map, maps_drawing
from diffattn.report.svg import DASHES, SERIES
from diffattn.report.wording import quantity

Chart = dict[str, Any]


@pytest.fixture(scope="module")
def drawn() -> dict[str, Drawing]:
    return {drawing.name: drawing for drawing in experiment_drawings(make_experiment())}


@pytest.fixture(scope="module")
def svgs(drawn: dict[str, Drawing]) -> dict[str, str]:
    return {name: drawing.svg for name, drawing in drawn.items()}


def chart(name: str) -> Chart:
    return deepcopy(next(chart for chart in make_experiment()["charts"] if chart["name"] == name))


def draw(*charts: Chart) -> list[Drawing]:
    return experiment_drawings({"charts": list(charts)})


def test_every_chart_is_drawn_and_says_in_words_what_it_shows(drawn: dict[str, Drawing]) -> None:
    assert list(drawn) == ["accuracy-over-length", "loss", "depth-by-length", "maps"]
    assert drawn["accuracy-over-length"].alt.startswith("Accuracy over length: softmax falls")
    assert "V1 without norm goes from 3.22 to 0.735, where it breaks off" in drawn["loss"].alt
    assert drawn["loss"].caption.endswith("A cross: there the curve breaks off.")
    least = quantity(min(chart("maps")["panels"][0]["values"]), 3)
    assert f"first map has weights from {least} to 0.605 and gives the answer 0.605" in drawn["maps"].alt
    assert "Accuracy: the fuller the colour, the nearer to 1; a dash" in drawn["depth-by-length"].caption


def test_a_heat_map_without_words_gets_some_of_its_numbers() -> None:
    [drawing] = draw(chart("depth-by-length") | {"alt": None})
    low, high = accuracy(7, 2048, 0.5), accuracy(7, 256, 0.0)
    assert f"V2 from {low:.3f} to {high:.3f}." in drawing.alt


def test_every_cell_of_a_heat_map_holds_its_number(svgs: dict[str, str]) -> None:
    panels = texts(svgs["depth-by-length"])
    assert len(panels) == len(VARIANTS)
    columns, rows = ["256", "512", "1,024", "2,048"], ["0", "0.25", "0.5", "0.75", "1"]
    for index, words in enumerate(panels):
        assert VARIANTS[index] in [text for _, _, text in words]
        expected = [[f"{accuracy(index, length, depth):.2f}" for length in LENGTHS] for depth in DEPTHS]
        if index == DIVERGED:
            expected[4][3] = "\N{EN DASH}"
        assert cells(words, columns, rows) == expected


def test_the_fuller_the_nearer_to_the_highest_and_red_below_zero() -> None:
    frame = Frame(row_label="r", rows=["a", "b"], column_label="c", columns=["x", "y", "z"])
    figure = draw_heat(PAPER, "title", frame, [Grid(title="", values=[[0.0, 0.25, 1.0], [-0.5, None]])])
    [axes] = figure.axes
    faces = {(patch.get_x() + 0.5, patch.get_y() + 0.5): patch.get_facecolor() for patch in axes.patches}
    fullness = [faces[place][3] / FULLEST for place in ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1))]
    assert fullness == [0, 0.25, 1, 0.5, 0, 0]
    assert faces[0, 1][:3] != faces[2, 0][:3]
    assert [text.get_text() for text in axes.texts] == ["0.00", "0.25", "1.00", "-0.50", "\N{EN DASH}", "\N{EN DASH}"]
    assert "title\nThe fuller the colour" in figure.get_suptitle()


def test_shades_stay_between_none_and_full() -> None:
    assert [shade(value, 0.5, 1.0) for value in (0.25, 0.5, 0.75, 1.0, 2.0)] == [0, 0, 0.5, 1, 1]
    assert [shade(value, -1.0, 2.0) for value in (-1.0, 0.0, 1.0, 3.0)] == [0.5, 0, 0.5, 1]
    assert shade(0.0, 0.0, 0.0) == 0


def test_bars_of_a_map_have_the_weights_and_stand_below_zero_where_these_are(drawn: dict[str, Drawing]) -> None:
    figure = drawn["maps"].draw(PAPER)
    panels = chart("maps")["panels"]
    assert [axes.get_title() for axes in figure.axes] == ["first map", "second map", "signed map"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    for axes, panel in zip(figure.axes, panels, strict=True):
        bars = sum(np.nan_to_num(patch.get_data().values) for patch in axes.patches)
        np.testing.assert_array_equal(bars, panel["values"])
        assert axes.lines[1].get_xdata()[0] == ANSWER
    signed = figure.axes[2]
    above, below = signed.patches
    assert above.get_data().values.min() == 0 == below.get_data().values.max()
    assert above.get_facecolor() != below.get_facecolor()
    assert signed.get_ylim()[0] < min(panels[2]["values"]) < 0
    assert len(figure.axes[0].patches) == 1


def test_the_answer_is_marked_with_its_weight(svgs: dict[str, str]) -> None:
    said = [[words for _, _, words in panel if words.startswith("answer")] for panel in texts(svgs["maps"])]
    assert said == [["answer 0.61"], ["answer 0.0013"], ["answer 0.60"]]
    far = [(x, words) for x, _, words in texts(_one_map(answer=3).svg)[0] if words.startswith("answer")]
    assert far == [(pytest.approx(far[0][0]), "answer 0.25")]
    assert not [words for _, _, words in texts(_one_map(answer=None).svg)[0] if words.startswith("answer")]
    assert not [words for _, _, words in texts(_one_map(answer=9).svg)[0] if words.startswith("answer")]


def _one_map(answer: int | None) -> Drawing:
    weights = [0.5, None, 0.25, 0.25, math.nan]
    return maps_drawing(name="m", title="t", caption="", alt="a", maps=[Map(title="", weights=weights)], answer=answer)


def test_a_gap_in_a_map_stays_a_gap() -> None:
    values = _one_map(answer=1).draw(PAPER).axes[0].patches[0].get_data().values
    np.testing.assert_array_equal(values, [0.5, np.nan, 0.25, 0.25, np.nan])


def test_a_long_map_is_one_path_a_sign() -> None:
    weights = np.random.default_rng(0).standard_normal(32_768) / 1e4
    maps = [Map(title="long", weights=weights.tolist())]
    svg = maps_drawing(name="long", title="t", caption="", alt="a", maps=maps, answer=7).svg
    assert svg.count("<path") < 40


def test_points_have_their_places_intervals_and_gaps(drawn: dict[str, Drawing]) -> None:
    [axes] = drawn["accuracy-over-length"].draw(PAPER).axes
    drawn_at = [tuple(map(float, line.get_xdata())) for line in axes.lines]
    lines = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]
    [broken] = [values for values in lines if np.isnan(values).any()]
    np.testing.assert_array_equal(broken, [*_of(DIVERGED)[:2], np.nan, _of(DIVERGED)[3]])
    assert (256, 512, 2048) in drawn_at
    assert axes.get_ylim()[0] == 0
    bars = [bar.get_segments() for bar in axes.collections]
    assert bars[0][1][:, 1] == pytest.approx([_of(0)[1] - 0.02, _of(0)[1] + 0.02])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["256", "512", "1K", "2K"]


def _of(variant: int) -> list[float]:
    return [accuracy(variant, length) for length in LENGTHS]


def test_a_run_that_diverged_ends_in_a_cross(drawn: dict[str, Drawing]) -> None:
    [axes] = drawn["loss"].draw(PAPER).axes
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    row = chart("loss")["curves"][DIVERGED]["line"][63]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in crosses] == [tuple(row)]
    assert len(axes.collections) - len(VARIANTS) == len(VARIANTS)  # a band and an empty set of intervals each
    assert axes.get_yscale() == "log"


def test_eight_variants_are_told_apart_by_colour_by_dashes_and_by_marks(
    drawn: dict[str, Drawing], svgs: dict[str, str]
) -> None:
    assert len(set(DASHES)) == len(set(SERIES)) == len(set(PAPER.series)) == len(PAGE.series) >= 8
    [axes] = drawn["accuracy-over-length"].draw(PAPER).axes
    _, names = axes.get_legend_handles_labels()
    shown = [line for line in axes.lines if line.get_label() in names]
    assert names == list(VARIANTS)
    assert len({line.get_marker() for line in shown}) == len({line.get_color() for line in shown}) == 8
    assert all(f"var(--series-{index})" in svgs["accuracy-over-length"] for index in range(8))


def test_drawings_for_a_page_take_its_colours_and_font(svgs: dict[str, str]) -> None:
    for svg in svgs.values():
        assert "#a100" not in svg
        assert "font-family" not in svg
        ids = [element.get("id") for element in ElementTree.fromstring(svg).iter() if element.get("id")]
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["depth-by-length", "maps"])
def test_files_stand_alone(drawn: dict[str, Drawing], name: str) -> None:
    found = drawn[name].files()
    image = Image.open(io.BytesIO(found[f"{name}.png"]))
    image.load()
    assert image.convert("RGB").getpixel((1, image.height - 2)) == (255, 255, 255)
    words = " ".join(ElementTree.fromstring(found[f"{name}.svg"]).itertext())
    assert drawn[name].title in words
    assert all(panel["title"] in words for panel in chart(name)["panels"])


def test_a_heat_map_can_be_drawn_by_itself() -> None:
    frame = Frame(row_label="layer", rows=["1"], column_label="head", columns=["1", "2"], high=0.5, unit="share")
    drawing = heat_drawing(
        name="one", title="One", caption="", alt="One row.", frame=frame, grids=[Grid(title="", values=[[0.1, 0.5]])]
    )
    assert [words for _, _, words in texts(drawing.svg)[0]][-2:] == ["0.100", "0.500"]
    assert frame.key == "Share: the fuller the colour, the nearer to 0.5; a dash: not measured."


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"kind": "pie"},
        {"kind": "curves", "curves": [{"points": [[1, None, None, None]], "line": [[1, math.nan]]}]},
        {"kind": "heat", "panels": [{"values": [[None, math.nan]]}, {}]},
        {"kind": "maps", "panels": [{"values": [None]}, {}]},
        *({"kind": kind} for kind in ("curves", "heat", "maps")),
    ],
)
def test_a_chart_without_a_finite_number_is_left_out(bad: Chart) -> None:
    assert draw(bad) == []


def test_what_a_chart_lacks_is_made_up_for() -> None:
    curve, heat, maps = draw(
        {"kind": "curves", "curves": [{"points": [[1, 2.0], [2, 3.0, None, None]]}]},
        {"kind": "heat", "name": "../Evil name", "panels": [{"values": [[0.5], [0.25, 2.0]]}]},
        {"kind": "maps", "name": "../evil Name", "panels": [{"values": [0.5, 0.5]}]},
    )
    assert (curve.name, curve.title, curve.alt) == ("chart", "Chart", "Chart: curve 1 goes from 2.00 to 3.00.")
    assert (heat.name, maps.name) == ("evil-name", "evil-name-3")
    assert cells(texts(heat.svg)[0], ["1", "2"], ["1", "2"]) == [["0.50", "\N{EN DASH}"], ["0.25", "2.00"]]
    assert maps.alt == "../evil Name: a map has weights from 0.500 to 0.500."
    assert len(texts(maps.svg)) == 1
    assert len(chart("maps")["panels"][0]["values"]) == KEYS
