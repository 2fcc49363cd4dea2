"""The page: order, balance, escaping, no request, no script, and results with holes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from diffattn.errors import UserError
from diffattn.report import render, write_report
from diffattn.report.heat import FULLEST
from pages import Page, assert_labelled, assert_self_contained

Results = dict[str, Any]
EVIL = '<script>alert(1)</script><img src=http://evil.example/x onerror="y"> & \' {{ 7*7 }} $x$'


@pytest.fixture(scope="module")
def page_text(make: Callable[..., Results]) -> str:
    return render(make())


def test_tags_are_balanced_and_ids_unique(page_text: str) -> None:
    assert_labelled(page_text)


def test_order_is_title_verdict_table_curves_measured(results: Results, page_text: str) -> None:
    page = Page(page_text)
    parts = [a.get("id") or tag for tag, a in page.tags if tag in ("h1", "section")]
    assert parts == ["h1", "verdict", "table", "curves", "measured"]
    marks = (results["verdict"][0], "1,320,192 123", "Training loss", results["command"])
    places = [page.text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_shows_all_it_was_given(results: Results, page_text: str) -> None:
    text = Page(page_text).text
    assert all(sentence in text for sentence in results["verdict"])
    for shown in (
        "2.13.0",
        "Some CPU",
        "cd" * 32,
        "0, 1, 2",
        "learning rate 0.001",
        "at most 100,000",
        "2026-01-02T03:04:05Z",
        "914.4",
    ):
        assert shown in text


def test_nothing_is_fetched_and_nothing_is_run(page_text: str) -> None:
    assert_self_contained(page_text)


def test_fits_a_phone_and_both_schemes(page_text: str) -> None:
    page = Page(page_text)
    viewport = [a["content"] for a in page.attributes("meta") if a.get("name") == "viewport"]
    assert viewport == ["width=device-width, initial-scale=1"]
    scrollers = [a for a in page.attributes("div") if a.get("class") == "scroll"]
    assert len(scrollers) == len(page.attributes("table")) == 2
    assert all(a["tabindex"] == "0" and a["role"] == "region" for a in scrollers)
    assert "prefers-color-scheme: dark" in _style()
    assert re.search(r"\.scroll \{[^}]*overflow-x: auto", _style())


def test_every_figure_says_in_words_what_it_shows(page_text: str) -> None:
    page = Page(page_text)
    labels = [a["aria-label"] or "" for _, a in page.tags if a.get("role") == "img"]
    assert len(labels) == len(page.attributes("figure")) == 4
    assert all("V1 goes from" in label for label in labels)
    assert all(a.get("aria-hidden") == "true" for a in page.attributes("svg"))


def _strings(tree: Any, value: str) -> Any:
    """The same tree with every string, key of free form and corpus name replaced by `value`."""
    if isinstance(tree, dict):
        return {key: _strings(entry, value) for key, entry in tree.items()}
    if isinstance(tree, list):
        return [_strings(entry, value) for entry in tree]
    return value if isinstance(tree, str) else tree


def test_every_string_is_escaped(results: Results) -> None:
    for key in ("versions", "machine", "settings", "corpus", "baseline_config", "comparisons", "verdict"):
        results[key] = _strings(results[key], EVIL)
    results |= {"command": EVIL, "preset": EVIL, "created": EVIL, "baseline": EVIL}
    results["settings"][EVIL] = EVIL
    results["corpus"]["splits"][EVIL] = 1
    text = render(results)
    page = Page(text)
    assert {tag for tag, _ in page.tags} & {"script", "img"} == set()
    assert text.count("&lt;script&gt;") > 15
    assert " ".join(EVIL.split()) in page.text
    assert "<script" not in text


def test_a_variant_with_a_strange_name_is_escaped_everywhere(results: Results) -> None:
    results["variants"][1] = EVIL
    for run in results["runs"]:
        run["variant"] = EVIL if run["variant"] == "v1" else run["variant"]
    page = Page(render(results))
    assert {tag for tag, _ in page.tags} & {"script", "img"} == set()


def _without(*keys: str) -> Callable[[Results], None]:
    def change(results: Results) -> None:
        for key in keys:
            del results[key]

    return change


def _broken(value: float | None) -> Callable[[Results], None]:
    def change(results: Results) -> None:
        run = results["runs"][-1]
        run["curves"]["loss"] = [value] * 50
        run["curves"]["gradient_norm"][-10:] = [value] * 10
        run["curves"]["lambda"]["max"] = [[value] * 4] * 50
        for split in run["evaluation"].values():
            split.update(dict.fromkeys(("nll", "loss", "perplexity_token", "perplexity_word", "bits_per_byte"), value))

    return change


def _nothing(results: Results) -> None:
    results.clear()


def _nulls(results: Results) -> None:
    results.update(dict.fromkeys(results))


def _zero_norms(results: Results) -> None:
    for run in results["runs"]:
        run["curves"]["gradient_norm"] = [0.0] * 50


@pytest.mark.parametrize(
    "change",
    [
        _without("speed"),
        _without("comparisons", "verdict", "command", "versions", "machine"),
        _without("corpus", "settings", "baseline_config", "seeds"),
        _without("runs"),
        _broken(None),
        _broken(math.nan),
        _broken(math.inf),
        _nothing,
        _nulls,
        _zero_norms,
    ],
)
def test_holes_do_not_break_it(results: Results, change: Callable[[Results], None]) -> None:
    change(results)
    text = Page(render(results)).text
    assert not re.search(r"\bnan\b|\binf\b|\bNone\b", text)


@pytest.mark.parametrize("variants", [("softmax",), ("v2",), ("softmax", "gated", "v1", "v2")])
def test_any_number_of_variants(make: Callable[..., Results], variants: tuple[str, ...]) -> None:
    text = Page(render(make(variants=variants, seeds=(0,)))).text
    assert "none: one seed" in text if len(variants) > 1 else "nothing to compare" in text


def test_writes_whole_files_and_leaves_no_scrap(results: Results, page_text: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    path.parent.mkdir()
    path.write_text("an older report")
    write_report(json.loads(json.dumps(results)), path)
    assert path.read_text(encoding="utf-8") == page_text
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]


def test_an_unwritable_path_is_the_users_to_mend(results: Results, tmp_path: Path) -> None:
    for key in ("runs", "speed"):
        del results[key]
    with pytest.raises(UserError, match="cannot write the report to"):
        write_report(results, tmp_path)
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UserError, match="name a file that can be written"):
        write_report(results, tmp_path / "file" / "report.html")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_colours_have_enough_contrast() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", _style(), flags=re.DOTALL)
    for scheme in (light, dark):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", scheme))
        for surface in ("page", "raised"):
            assert _contrast(colours["ink"], colours[surface]) >= 7
            assert _contrast(colours["soft"], colours[surface]) >= 4.5
        series = [name for name in colours if name.startswith("series-")]
        assert len(series) == 8
        assert all(_contrast(colours[name], colours["page"]) >= 4.5 for name in series)
        cells = [_over(colours[name], colours["page"], FULLEST) for name in ("series-1", "series-2")]
        assert all(_contrast(colours["ink"], cell) >= 4.5 for cell in cells)


def _over(colour: str, ground: str, share: float) -> str:
    """The colour that is seen where `share` of a colour lies over another."""
    pairs = [(int(colour[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(share * above + (1 - share) * below):02x}" for above, below in pairs)


def _contrast(first: str, second: str) -> float:
    """The ratio of WCAG 2, 1 to 21."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _style() -> str:
    return files("diffattn.report").joinpath("style.css").read_text(encoding="utf-8")
