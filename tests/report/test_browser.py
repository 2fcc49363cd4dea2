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
