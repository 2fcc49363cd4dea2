"""The lesson as text: what stands around the parts, lines that fit, tables that are aligned."""

from __future__ import annotations

from reading import text_of

from diffattn.lesson.estimates import Estimate, Share
from diffattn.lesson.pages import terminal, words
from diffattn.lesson.pages.course import parts
from diffattn.lesson.pages.part import Column, Table, shown


def whole(made):
    pieces = [terminal.opening(parts())]
    for one, walked, exercises in made:
        pieces += [terminal.title(one), *(terminal.step(step, f"{one.number}.1") for step in walked)]
        pieces.append(terminal.exercises(one, exercises, True))
    return "\n".join([*pieces, terminal.closing()])


def test_the_text_is_ascii_and_fits(made, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = whole(made)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 100


def test_it_follows_a_narrow_terminal(made, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    prose = [line for line in whole(made).splitlines() if line.startswith("Shows: ")]
    assert prose
    assert all(len(line) <= 60 for line in prose)


def test_what_stands_around_the_parts(monkeypatch):
    assert len(words.GLOSSARY) == 9
    assert len(words.RECAP) == 10
    assert {"differential attention", "noise floor", "lambda", "DIFF V1", "DIFF V2", "head norm", "signal-to-noise"} | {
        "lost in the middle",
        "arithmetic intensity",
    } == {term.name for term in words.GLOSSARY}
    closing = " ".join(terminal.closing().split())
    for reading in words.READINGS:
        assert reading.title in closing
    assert words.NEXT.split(":")[0] in closing
    opening = " ".join(terminal.opening(parts()).split())
    assert "60 minutes in all, to read" in opening
    assert "One part at a time: `diffattn lesson 1`" in opening


def test_cells_as_text():
    assert shown(Estimate(-0.00001, 0.001, 100), ".2f") == "0.00 +- 0.00"
    assert shown(-1.25, ".1f") == "-1.2"
    assert shown(Share(0, 8), ".3f") == "0 of 8: up to 0.32"
    assert shown(Share(8, 8), ".3f") == "8 of 8: from 0.68"
    assert shown(Share(1_500, 2_000), ".3f") == "1,500 of 2,000: 0.731 to 0.768"
    assert [shown(None, ".1f"), shown("word", ".1f"), shown(12345, ",")] == ["-", "word", "12,345"]


def test_a_number_and_its_interval_are_not_parted(made, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = "".join(text_of(made, number) for number in range(1, 14))
    assert not [line for line in text.splitlines() if line.endswith("+-") or line.lstrip().startswith("+-")]
    tables = [terminal.table(step.table) for _, walked, _ in made for step in walked]
    assert max(len(line) for table in tables for line in table.splitlines()) <= 80


def test_a_table_is_aligned():
    made = terminal.table(Table((Column("N", form=","), Column("a long name", "measured", ".1f")), [(1000, 2.0)]))
    assert made.splitlines() == [
        "         a long",
        "    N      name",
        "       measured",
        "-----  --------",
        "1,000       2.0",
    ]
