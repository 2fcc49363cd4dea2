"""Read the lesson's page."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "circle", "line", "polyline"}


class Reader(HTMLParser):
    """Checks the nesting, and keeps elements and the text in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.inside: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.inside[tag] = self.inside.get(tag, "") + data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]
