"""The lesson as one self-contained page: nothing is fetched, and nothing in it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from diffattn.errors import UserError
from diffattn.lesson.pages import words
from diffattn.lesson.pages.charts import figure
from diffattn.lesson.pages.part import Cell, Column, Exercise, Part, Step, Table, prose, shown
from diffattn.storage import write_text

__all__ = ["Made", "check", "render", "write"]

Made = tuple[Part, Sequence[Step], Sequence[Exercise]]

# What the shared stylesheet lacks: sections of prose.
STYLE = """
p, li, dd { max-width: 50rem; }
section > h2 { border-top: 1px solid var(--line); padding-top: 1.25rem; }
h3 { margin-top: 2rem; font-size: 1.05rem; }
h4 { margin: 0; font-size: .9rem; }
.scroll { margin: .8rem 0; width: fit-content; max-width: 100%; }
.scroll .text { text-align: left; white-space: normal; min-width: 9rem; }
.scroll tbody th { white-space: normal; min-width: 5.5rem; max-width: 15rem; }
.plot, pre { overflow-x: auto; }
pre { white-space: pre; }
.plot svg { min-width: 34rem; }
.wrong { padding: .1rem .9rem; border-left: .25rem solid var(--series-2); }
.shows { padding: .1rem .9rem; border-left: .25rem solid var(--accent); background: var(--raised); }
.plots { margin: 1rem 0; }
figure { max-width: 40rem; }
a { color: var(--accent); }
"""


def check(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done.

    Raises:
        UserError: it is a folder, or its folder is missing or closed to writing.
    """
    folder = path.absolute().parent
    if str(path) == "-" or path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UserError(f"the page {path} cannot be written: name a file in a folder that exists and may be written")


def write(path: Path, text: str) -> None:
    """Write the page whole or not at all.

    Raises:
        UserError: it cannot be written; what was there before is still there.
    """
    try:
        write_text(path, text)
    except OSError as error:
        raise UserError(f"the page {path} cannot be written ({error.strerror or error}): name another") from error


def render(made: Sequence[Made], whole: bool) -> str:
    """The page of these parts; with `whole` also what stands around them."""
    style = files("diffattn").joinpath("report", "style.css").read_text(encoding="utf-8") + STYLE
    name = "Differential attention: a lesson" if whole else f"Part {made[0][0].number}. {made[0][0].title}"
    body = [_part(part, steps, exercises) for part, steps, exercises in made]
    before, after = (_opening(made), _closing()) if whole else ("", "")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header><p class="kind">diffattn lesson: measured beside derived</p><h1>{escape(name)}</h1></header>\n'
        f"<main>\n{_paragraphs(words.INTRODUCTION)}{before}{''.join(body)}{after}</main>\n</body>\n</html>\n"
    )


def _opening(made: Sequence[Made]) -> str:
    plan = "".join(
        f'<li><a href="#part-{part.number}">{escape(part.title)}</a> ({part.minutes} min)</li>' for part, _, _ in made
    )
    minutes = sum(part.minutes for part, _, _ in made)
    return (
        f'<nav aria-label="Parts"><h2>{minutes} minutes in all</h2>\n'
        f"<p>To read; the exercises come on top.</p>\n<ol>{plan}</ol></nav>\n"
        f"<h2>What you need</h2>\n{_list(words.PREREQUISITES)}"
    )


def _part(part: Part, steps: Sequence[Step], exercises: Sequence[Exercise]) -> str:
    asked = "".join(_exercise(f"{part.number}.{index}", one) for index, one in enumerate(exercises, 1))
    walked = "".join(_step(step, f"{part.number}.{index}") for index, step in enumerate(steps, 1))
    return (
        f'<section id="part-{part.number}" aria-labelledby="title-{part.number}">\n'
        f'<h2 id="title-{part.number}">Part {part.number}. {escape(part.title)}</h2>\n'
        f'<p class="note">{part.minutes} minutes. Afterwards you can: {_prose(part.aim)}</p>\n{walked}'
        f"<h3>Exercises</h3>\n{asked}</section>\n"
    )


def _step(step: Step, number: str) -> str:
    pieces = [f"<h3>{number} {escape(step.heading)}</h3>\n", _paragraphs(step.text)]
    if step.formula:
        pieces.append(f'<pre tabindex="0">{escape(step.formula)}</pre>\n')
    if step.table:
        pieces.append(_table(step.table, step.heading))
    if step.charts:
        pieces.append(f'<div class="plots">{"".join(map(figure, step.charts))}</div>\n')
    pieces += [f'<p class="wrong"><b>Often told wrong.</b> {_prose(text)}</p>\n' for text in step.corrections]
    return "".join([*pieces, f'<p class="shows"><b>Shows:</b> {_prose(step.shows)}</p>\n'])


def _table(table: Table, caption: str) -> str:
    kinds = [' class="text"' if text else "" for text in prose(table)]
    head = "".join(map(_head, table.columns, kinds))
    rows = "".join(_row(row, table.columns, kinds) for row in table.rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table: {escape(caption)}">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )


def _head(column: Column, kind: str) -> str:
    source = "" if column.kind == "given" else f"<small>{column.kind}</small>"
    return f'<th scope="col"{kind}>{escape(column.name)}{source}</th>'


def _row(row: tuple[Cell, ...], columns: tuple[Column, ...], kinds: Sequence[str]) -> str:
    cells = [
        escape(shown(cell, column.form)).replace("+-", "&plusmn;") for cell, column in zip(row, columns, strict=True)
    ]
    rest = "".join(f"<td{kind}>{text}</td>" for kind, text in zip(kinds[1:], cells[1:], strict=True))
    return f'<tr><th scope="row">{cells[0]}</th>{rest}</tr>\n'


def _exercise(number: str, one: Exercise) -> str:
    return (
        f"<p><b>Exercise {number}.</b> {_prose(one.question)}</p>\n"
        f"<details><summary>Answer to {number}</summary><p>{_prose(one.answer)}</p></details>\n"
    )


def _closing() -> str:
    terms = "".join(
        f"<dt>{escape(t.name)}</dt><dd><i>Said:</i> {_prose(t.said)}<br><i>Meant:</i> {_prose(t.meant)}</dd>\n"
        for t in words.GLOSSARY
    )
    readings = "".join(f"<li>{_reading(reading)}</li>\n" for reading in words.READINGS)
    points = "".join(f"<li>{_prose(point)}</li>\n" for point in words.RECAP)
    return (
        f"<section><h2>Ten points to keep</h2>\n<ol>{points}</ol></section>\n"
        f'<section><h2>Nine terms: what people say, what it means</h2>\n<dl class="words">{terms}</dl></section>\n'
        f"<section><h2>Readings</h2>\n<ul>{readings}</ul></section>\n"
        f"<section><h2>What comes next</h2>\n<p>{_prose(words.NEXT)}</p></section>\n"
    )


def _reading(reading: words.Reading) -> str:
    title, *others = reading.links
    code = "".join(f' <a href="{escape(link)}">{escape(link.removeprefix("https://"))}</a>' for link in others)
    linked = f'<a href="{escape(title)}">{escape(reading.title)}</a>'
    return f"{linked}. {_prose(reading.source)}. {_prose(reading.why)}{code}"


def _prose(text: str) -> str:
    """Text as markup: what stands in backticks is code, and a paper's number leads to it."""
    text = escape(text, quote=False).replace("+-", "&plusmn;")
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"arXiv:(\d{4}\.\d{5})", r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', text)


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{_prose(text)}</p>\n" for text in texts)


def _list(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{_prose(text)}</li>' for text in texts)}</ul>\n"
