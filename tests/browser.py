"""Pages in a real browser, Chromium without a window: what it says, what it asks for, and whether all can be read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WIDTHS = (360, 1280)
SCHEMES = ("light", "dark")
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
#: In CSS pixels: of the page's text, and of the text in drawings, which shrink with the page.
LEAST_FONT, LEAST_DRAWN = 12, 9

# What a reader could not see or tell apart, as {kind: [what]}.
DEFECTS = """([leastFont, leastDrawn]) => {
  const found = {};
  const add = (kind, element, more) => (found[kind] ??= []).push(
    `${element.tagName} ${element.className.baseVal ?? element.className} ${element.textContent.trim().slice(0, 40)}`
    + (more === undefined ? "" : `: ${more}`));
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  const inside = (element) => {
    for (let at = element.parentElement; at; at = at.parentElement) if (scrolls(at)) return true;
    return false;
  };
  const width = document.documentElement.clientWidth;
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (!box.width && !box.height) continue;
    if (!inside(element) && (box.right > width + 0.5 || box.left < -0.5)) add("outside the page", element, box.right);
    if (scrolls(element) && element.scrollWidth > element.clientWidth) {
      const named = element.tagName == "PRE" || element.ariaLabel || element.getAttribute("aria-labelledby");
      if (element.tabIndex < 0 || !named) add("scrolls, but not by keyboard or without a name", element);
    }
    const text = [...element.childNodes].some((node) => node.nodeType == 3 && node.data.trim());
    if (!text) continue;
    const size = parseFloat(getComputedStyle(element).fontSize);
    const drawn = element.closest("svg");
    if (!drawn) {
      if (size < leastFont) add("small", element, size);
      continue;
    }
    const {a, b} = element.getScreenCTM();
    if (size * Math.hypot(a, b) < leastDrawn) add("small in a drawing", element, size * Math.hypot(a, b));
    const frame = drawn.getBoundingClientRect();
    const sides = [frame.left - box.left, box.right - frame.right, frame.top - box.top, box.bottom - frame.bottom];
    const over = Math.max(...sides);
    if (over > 2) add("cut off in a drawing", element, over);
  }
  for (const drawing of document.querySelectorAll("figure svg")) {
    const texts = [...drawing.querySelectorAll("text")].map((text) => [text, text.getBoundingClientRect()]);
    texts.forEach(([one, first], place) => texts.slice(place + 1).forEach(([other, second]) => {
      const across = Math.min(first.right, second.right) - Math.max(first.left, second.left);
      const down = Math.min(first.bottom, second.bottom) - Math.max(first.top, second.top);
      if (across > 1 && down > 3) add("one over another in a drawing", one, other.textContent.trim());
    }));
  }
  return found;
}"""


@contextmanager
def launched() -> Iterator[Any]:
    """Chromium with a profile of its own; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"needs Chromium: none of {', '.join(NAMES)} is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


def assert_readable(browser: Any, page: Path, width: int, scheme: str) -> None:
    """The page, all of it unfolded, loads in silence, asks nobody else, fits, and follows the scheme of colours.

    Every figure has a name that says what it shows, as the browser tells it to a screen reader.
    """
    with opened(browser, page, width, scheme) as shown:
        shown.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
        defects = shown.evaluate(DEFECTS, [LEAST_FONT, LEAST_DRAWN])
        assert not defects, defects
        assert shown.evaluate("document.documentElement.scrollWidth") == width
        figures = shown.locator("figure")
        for figure in figures.all():
            named = figure.get_by_role("img", name=re.compile(r"\w+ \w+ \w+")).count()
            assert named == 1, f"a figure without words: {figure.inner_text()}"
        white = shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert white == (scheme == "light"), f"the colours are not those of the {scheme} scheme"


@contextmanager
def opened(browser: Any, page: Path, width: int, scheme: str) -> Iterator[Any]:
    """The page in a window of its own; afterwards nothing must have been said, or asked of another place."""
    said: list[str] = []
    asked: list[str] = []
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
        shown = context.new_page()
        shown.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        shown.on("pageerror", lambda error: said.append(str(error)))
        shown.on("request", lambda request: asked.append(request.url))
        shown.goto(page.as_uri(), wait_until="networkidle")
        yield shown
    others = [url for url in asked if url != page.as_uri() and not url.startswith("data:")]
    assert page.as_uri() in asked
    assert not others, f"asked for {others}"
    assert not said, f"said {said}"
