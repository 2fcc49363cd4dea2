"""The page: well formed, self-contained, accessible, and written whole or not at all."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from markup import Reader

from diffattn.errors import UserError
from diffattn.lesson.estimates import Estimate
from diffattn.lesson.pages import page
from diffattn.lesson.pages.part import Column, Exercise, Part, Step, Table

LINKS = (
    "#",
    "https://arxiv.org/abs/",
    "https://huggingface.co/blog/microsoft/diff-attn-v2",
    "https://github.com/microsoft/unilm/tree/master/Diff-Transformer/Diff-Transformer-V2",
)


@pytest.fixture(scope="module")
def text(made):
    return page.render(made, whole=True)


@pytest.fixture(scope="module")
def read(text):
    return Reader(text)


def test_it_is_well_formed_and_runs_and_fetches_nothing(text, read):
    tags = {tag for tag, _ in read.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert not re.search(r"url\(|@import|javascript:", text)
    for _, attributes in read.elements:
        assert not {"src", "srcset", "xlink:href"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith(LINKS)


def test_links_on_the_page_lead_somewhere(read):
    places = {attributes["id"] for _, attributes in read.elements if "id" in attributes}
    assert len(places) == len([1 for _, attributes in read.elements if "id" in attributes])
    links = [a["href"][1:] for a in read.all("a") if a["href"].startswith("#")]
    assert links == [f"part-{number}" for number in range(1, 14)]
    assert set(links) <= places


def test_papers_and_posts_are_linked(text, read):
    linked = {attributes["href"] for attributes in read.all("a")}
    numbers = set(re.findall(r"arXiv:(\d{4}\.\d{5})", text))
    assert len(numbers) > 5
    assert {f"https://arxiv.org/abs/{number}" for number in numbers} <= linked
    assert set(LINKS[2:]) <= linked


def test_commands_are_code(text, read):
    assert "`" not in text
    assert "diffattn plan" in read.inside["code"]


def test_words_stand_to_the_left_under_their_name(made):
    table = Table((Column("N", form="d"), Column("what"), Column("x", "measured", ".1f")), [(1, "a b", 1.0)])
    step = Step(heading="h", text=("t",), table=table, shows="s.")
    one = Part(number=1, title="t", minutes=1, aim="a", steps=(), exercises=tuple)
    cells = [(tag, a.get("class")) for tag, a in Reader(page.render([(one, [step], [])], whole=False)).elements]
    assert [kind for tag, kind in cells if tag == "th" and kind != "kind"] == [None, "text", None, None]
    assert [kind for tag, kind in cells if tag == "td"] == ["text", None]


def test_it_is_light_and_dark_and_in_the_shared_style(text):
    import diffattn

    shared = (Path(diffattn.__file__).parent / "report" / "style.css").read_text()
    assert shared in text
    assert "prefers-color-scheme: dark" in text
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", text))
    assert used
    assert all(f"{name}:" in shared for name in used)


def test_curves_are_labelled(read, made):
    charts = [chart for _, walked, _ in made for step in walked for chart in step.charts]
    drawn = [attributes for attributes in read.all("svg") if attributes.get("role") == "img"]
    assert len(drawn) == len(charts) > 10
    for attributes, chart in zip(drawn, charts, strict=True):
        assert attributes["aria-label"].startswith(chart.title)
        assert chart.x in attributes["aria-label"]
        assert chart.y in attributes["aria-label"]
    assert all("aria-hidden" in a for a in read.all("svg") if a.get("role") != "img")
    assert [number for number in (1, 3, 5, 6, 9, 10, 12) if not any(s.charts for s in made[number - 1][1])] == []


def test_tables_have_scopes_and_say_what_is_measured(read):
    assert {a.get("scope") for a in read.all("th")} == {"col", "row"}
    assert "measured" in read.inside["small"]
    assert "derived" in read.inside["small"]


def test_answers_are_hidden_and_questions_are_not(read, made):
    hidden = " ".join(read.inside["details"].split())
    seen = " ".join(read.inside["p"].split())
    for _, _, exercises in made:
        for one in exercises:
            assert " ".join(one.answer.split()) in hidden
            assert " ".join(one.question.split()) in seen
            assert " ".join(one.question.split()) not in hidden
    assert all("open" not in attributes for attributes in read.all("details"))


def test_one_part_alone(made):
    read = Reader(page.render(made[4:5], whole=False))
    assert read.inside["h1"].startswith("Part 5")
    assert "dl" not in read.inside


def test_what_is_said_is_text_and_no_markup():
    said = 'a < b & "c" +- <script>'
    table = Table((Column(said), Column("x", "measured", ".1f")), [(said, Estimate(1.0, 0.1, 9))])
    step = Step(heading=said, text=(said,), formula=said, table=table, corrections=(said,), shows=said)
    one = Part(number=1, title=said, minutes=1, aim=said, steps=(), exercises=tuple)
    read = Reader(page.render([(one, [step], [Exercise(said, said)])], whole=False))
    assert not read.all("script")
    assert said in read.inside["h3"]
    assert said in read.inside["pre"]
    for tag in ("p", "details"):
        assert said.replace("+-", "±") in read.inside[tag]
    assert "1.0 ± 0.2" in read.inside["td"]


def test_writing_is_whole(tmp_path):
    target = tmp_path / "lesson.html"
    target.write_text("before")
    page.write(target, "after")
    assert target.read_text() == "after"
    assert os.listdir(tmp_path) == ["lesson.html"]


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    target = tmp_path / "lesson.html"
    target.write_text("before")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match="No space left"):
        page.write(target, "after")
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == ["lesson.html"]


def test_a_place_that_cannot_be_written_is_refused_first(tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "lesson.html"):
        with pytest.raises(UserError, match="cannot be written"):
            page.check(path)
    page.check(tmp_path / "lesson.html")
