"""The noise page, its tables and its drawings: what they show, that nothing is fetched, results with holes."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from diffattn.experiments.noise import NoiseRequest, run_noise
from diffattn.report.charts import Axis, Curve, draw_curves, short
from diffattn.report.drawing import PAPER, Drawing
from diffattn.report.noise_document import drawings, markdown, tables
from diffattn.report.noise_page import render_noise
from diffattn.report.noise_rows import between, find, measure, method_name
from diffattn.report.noise_tables import brief_tables
from diffattn.report.wording import as_given, percent, quantity
from pages import Page, assert_labelled, assert_self_contained

Results = dict[str, Any]
EVIL = '<script>alert(1)</script><img src=http://evil.example/x onerror="y"> & \' {{ 7*7 }} $x$'
PLACES = ("floor", "signal-to-noise", "output", "margin", "strength", "independent", "correlation", "lambda")
NAMES = [*PLACES, "lambda-sum", "second-margin", "failing", "controls"]


@pytest.fixture(scope="module")
def noise() -> Results:
    request = NoiseRequest(length=2048, lengths=(1024, 2048, 4096), draws=6, lam=0.4)
    return run_noise(request, command="diffattn noise --length 2048", progress=False)


@pytest.fixture(scope="module")
def page_text(noise: Results) -> str:
    return render_noise(noise)


@pytest.fixture(scope="module")
def drawn(noise: Results) -> list[Drawing]:
    return drawings(noise)


def test_the_page_is_well_formed_and_self_contained(page_text: str) -> None:
    assert_labelled(page_text)
    assert_self_contained(page_text)
    page = Page(page_text)
    assert len(page.attributes("figure")) == len(NAMES)
    assert len([a for a in page.attributes("div") if a.get("class") == "scroll"]) == len(page.attributes("table")) == 9


def test_the_page_shows_answers_first_and_all_it_was_given(noise: Results, page_text: str) -> None:
    text = Page(page_text).text
    sentences = [sentence for entry in noise["answers"] for sentence in (entry["question"], *entry["answer"])]
    assert all(sentence in text for sentence in sentences)
    row = find(noise, "correlation", "given", 0.9)
    for shown in (between(row, "gain"), noise["command"], noise["created"], "1,024, 2,048, 4,096", "second margin 0.0"):
        assert shown in text
    places = [text.index(mark) for mark in (sentences[0], "Curves", "Numbers", noise["command"])]
    assert places == sorted(places)


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")
def test_every_string_is_escaped(noise: Results) -> None:
    evil = deepcopy(noise)
    evil["answers"] = [{"question": EVIL, "answer": [EVIL, EVIL]}]
    evil |= {"command": EVIL, "created": EVIL, "versions": {EVIL: EVIL}, "machine": {EVIL: EVIL}}
    for row in evil["rows"]:
        row["method"] = EVIL if row["sweep"] == "controls" else row["method"]
    text = render_noise(evil)
    assert {tag for tag, _ in Page(text).tags} & {"script", "img"} == set()
    assert text.count("&lt;script&gt;") > 10


def _without(*keys: str) -> Callable[[Results], None]:
    def change(results: Results) -> None:
        for key in keys:
            del results[key]

    return change


def _values(value: float | None) -> Callable[[Results], None]:
    def change(results: Results) -> None:
        for row in results["rows"][::2]:
            for found in row["measures"].values():
                found.update(dict.fromkeys(("value", "low", "high", "error", "closed_form"), value))

    return change


def _no_measures(results: Results) -> None:
    for row in results["rows"]:
        row["measures"] = {}


@pytest.mark.parametrize(
    "change",
    [
        _without("answers", "options", "machine", "losing_strengths", "seed"),
        _without("rows"),
        *map(_values, (None, math.nan, 0.0)),
        _no_measures,
        dict.clear,
    ],
)
def test_holes_do_not_break_it(noise: Results, change: Callable[[Results], None]) -> None:
    results = deepcopy(noise)
    change(results)
    text = Page(render_noise(results)).text
    assert not re.search(r"\bnan\b|\binf\b|\bNone\b", text)
    assert markdown(results).startswith("# diffattn noise")
    assert len(brief_tables(results)) in (0, 2)


def test_every_drawing_says_in_words_what_it_shows(noise: Results, drawn: list[Drawing]) -> None:
    assert [drawing.name for drawing in drawn] == NAMES
    first, last = (measure(find(noise, "length", "softmax", at), "noise_mass")["value"] for at in (1024, 4096))
    assert f"softmax goes from {quantity(first, 3)} to {quantity(last, 3)}" in drawn[0].alt
    assert ("differential, lambda 0.4", 1) in drawn[0].legend
    temperature = measure(find(noise, "controls", "temperature", None), "signal_to_noise")["value"]
    assert f"best temperature (scores times 8) {quantity(temperature, 3)}" in drawn[-1].alt


def test_lengths_stand_on_a_logarithmic_axis_in_powers_of_two(drawn: list[Drawing]) -> None:
    [axes] = drawn[0].draw(PAPER).axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1K", "2K", "4K"]
    assert drawn[3].draw(PAPER).axes[0].get_xscale() == "linear"


def test_page_drawings_take_the_pages_colours(drawn: list[Drawing]) -> None:
    svgs = [drawing.svg for drawing in drawn]
    for svg in svgs:
        ElementTree.fromstring(svg)
        assert "#a100" not in svg
        assert "var(--series-" in svg
    ids = re.findall(r'\bid="([^"]+)"', "".join(svgs))
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["independent", "controls"])
def test_files_are_valid_and_stand_alone(drawn: list[Drawing], name: str) -> None:
    drawing = next(drawing for drawing in drawn if drawing.name == name)
    found = drawing.files()
    assert list(found) == [f"{name}.png", f"{name}.svg"]
    image = Image.open(io.BytesIO(found[f"{name}.png"]))
    image.load()
    assert image.format == "PNG"
    assert min(image.size) > 400
    assert image.convert("RGB").getpixel((1, image.height - 2)) == (255, 255, 255)
    tree = ElementTree.fromstring(found[f"{name}.svg"])
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    text = " ".join(tree.itertext())
    assert drawing.title in text
    assert all(entry in text for entry, _ in drawing.legend)
    assert found == drawing.files()


def test_points_have_bars_and_stand_over_the_line() -> None:
    curve = Curve(name="a", index=1, points=[(1, 2.0, 1.5, 3.0), (10, 4.0, None, None)], line=[(1, 2.1), (10, 3.9)])
    axis = Axis(label="x", log=True, marks=[(3.0, "here")])
    figure = draw_curves(PAPER, "title", [curve], axis, Axis(label="y", log=True, level=1.0))
    [axes] = figure.axes
    drawn = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 2]
    assert [list(values) for values in drawn][:2] == [[2.1, 3.9], [2.0, 4.0]]
    bars = axes.collections[0].get_segments()
    assert bars[0][:, 1].tolist() == [1.5, 3.0]
    assert bars[1][:, 1].tolist() == [4.0, 4.0]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert "here" in [text.get_text() for text in axes.texts]


def test_tables_hold_measure_interval_and_closed_form(noise: Results) -> None:
    table = tables(noise)[0]
    row = find(noise, "length", "best", 4096)
    cells = next(cells for cells in table.rows if cells[:2] == ("4,096", "differential, best lambda"))
    found = row["measures"]["signal_to_noise"]
    shown = cells[table.head.index("Signal-to-noise, a position")]
    assert shown.startswith(f"{found['value']:,.0f} ({found['low']:,.0f} to {found['high']:,.0f}); 2,648")
    assert shown.endswith("(outside)") == (found["inside"] is False)
    failing = next(table for table in tables(noise) if table.name == "failing")
    assert [cells[-1] for cells in failing.rows] == ["yes"] * 2 + ["no"] * 5
    assert "(outside)" in failing.rows[-2][failing.head.index("Signal-to-noise, a position")]


def test_markdown_is_a_table_for_each_sweep(noise: Results) -> None:
    text = markdown(noise)
    widths = [line.count(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert len(widths) == sum(len(table.rows) + 2 for table in tables(noise))
    assert all(f"## {table.title}" in text for table in tables(noise))
    assert noise["answers"][0]["answer"][0] in text


def test_the_terminals_tables_are_narrow(noise: Results) -> None:
    length, controls = brief_tables(noise)
    assert len(length.rows) == 9
    assert len(controls.rows) == 5
    found = find(noise, "length", "given", 1024)["measures"]
    row = quantity(found["noise_mass"]["value"]), quantity(found["signal_to_noise"]["value"])
    assert length.rows[1][:4] == ("1,024", "lambda 0.4", *row)
    assert max(len("  ".join(row)) for row in length.rows) < 72


def test_names_carry_their_numbers() -> None:
    assert method_name({"method": "top_k", "parameter": 64}) == "top-k (64 keys kept)"
    assert method_name({"method": "given", "lambda": 0.25}) == "differential, lambda 0.25"
    assert method_name({"method": "new"}) == "new"


def test_words_for_numbers() -> None:
    assert [as_given(value) for value in (8.0, 0.5, 12.283494, 131_072, 1024, -1.25)] == [
        "8",
        "0.5",
        "12.28",
        "131,072",
        "1,024",
        "-1.25",
    ]
    assert [percent(value) for value in (0.0136, 0.98642, 0.99987, 0.9999999, 1.0, 0.0, 3e-9)] == [
        "1.36%",
        "98.6%",
        "99.99%",
        "above 99.999%",
        "100%",
        "0%",
        "3.0e-07%",
    ]
    assert quantity(0.99999) == quantity(1.00001) == "1.000"
    assert [quantity(value) for value in (0.0, 1808.04, 7.896e13, 1.5e-7)] == ["0", "1,808", "7.896e+13", "1.500e-07"]
    assert [short(value) for value in (0.5, 20_000, 1e13, 3e6)] == ["0.5", "20K", "1e+13", "3M"]
