"""The lesson's page in a real browser, on a phone's and a desk's width, in the light and the dark scheme."""

from __future__ import annotations

import pytest

from browser import SCHEMES, WIDTHS, assert_readable, launched
from diffattn.lesson.pages import page


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def lesson(chromium, made, tmp_path_factory):
    path = tmp_path_factory.mktemp("lesson") / "lesson.html"
    path.write_text(page.render(made, whole=True), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_lesson_can_be_read_and_asks_for_nothing(chromium, lesson, width, scheme):
    assert_readable(chromium, lesson, width, scheme)
