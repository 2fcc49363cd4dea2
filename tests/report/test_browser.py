"""The reports in a real browser, on a phone's and a desk's width, in the light and the dark scheme."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from experiment_example import make_experiment
from test_noise_heads import made_up

from browser import SCHEMES, WIDTHS, assert_readable, launched
from diffattn.experiments.noise import NoiseRequest, run_noise
from diffattn.report import render
from diffattn.report.experiment_page import render_experiment
from diffattn.report.noise_page import render_noise

STORED = Path(__file__).parents[2] / "docs" / "results"
PAGES = ("compare", "noise", "experiment")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    compared = json.loads((STORED / "stdlib-quick" / "results.json").read_text("utf-8"))
    request = NoiseRequest(length=2048, lengths=(1024, 2048, 4096), draws=6, lam=0.4)
    noise = run_noise(request, command="diffattn noise --length 2048", progress=False)
    texts = (
        render(compared),
        render_noise(noise | {"heads": made_up()}),
        render_experiment(make_experiment()),
    )
    folder = tmp_path_factory.mktemp("pages")
    paths = {name: folder / f"{name}.html" for name in PAGES}
    for path, text in zip(paths.values(), texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read_and_asks_for_nothing(
    chromium: Any, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    assert_readable(chromium, pages[name], width, scheme)


@pytest.mark.parametrize("study", ["needle", "language", "stability"])
def test_a_studys_own_page_can_be_read_on_a_phone(chromium: Any, tmp_path: Path, study: str) -> None:
    page = tmp_path / "page.html"
    stored = json.loads((STORED / study / "results.json").read_text("utf-8"))
    page.write_text(render_experiment(stored), encoding="utf-8")
    assert_readable(chromium, page, min(WIDTHS), SCHEMES[0])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<p style='width: 400px'>a</p>", "outside the page"),
        ("<p style='font-size: 10px'>a</p>", "small"),
        ("<p style='overflow-x: auto'><b style='display: block; width: 500px'>a</b></p>", "not by keyboard"),
        ("<figure><svg width='50' height='50'><text x='40' y='20'>abcdef</text></svg></figure>", "cut off"),
        (
            "<figure><svg width='300' height='90'>"
            "<text x='9' y='20'>abcdef</text><text x='19' y='22'>ghijkl</text></svg></figure>",
            "one over another",
        ),
        ("<figure><svg width='300' viewBox='0 0 900 90'><text x='9' y='50'>a</text></svg></figure>", "small in a draw"),
        ("<figure><svg role='img'></svg></figure>", "without words"),
        ("<script>console.warn('careful')</script>", "careful"),
        ("<script>throw new Error('broken')</script>", "broken"),
        ("<img alt='' src='http://127.0.0.1:9/elsewhere.png'>", "elsewhere"),
        ("<style>body { background: black }</style>", "not those of the light scheme"),
    ],
)
def test_what_is_wrong_with_a_page_is_found(chromium: Any, tmp_path: Path, body: str, said: str) -> None:
    head = (
        "<!doctype html><meta charset='utf-8'><link rel='icon' href='data:,'><style>body { background: white }</style>"
    )
    page = tmp_path / "page.html"
    page.write_text(f"{head}<p>words</p>{body}", encoding="utf-8")
    with pytest.raises(AssertionError, match=said):
        assert_readable(chromium, page, 360, "light")
