"""Reading a drawing as a page shows it."""

from __future__ import annotations

from xml.etree import ElementTree

Text = tuple[float, float, str]


def texts(svg: str) -> list[list[Text]]:
    """Of each `svg` element, its texts as (x, y, words), in points, y downwards."""
    tree = ElementTree.fromstring(svg)
    found = [tree] if tree.tag == "svg" else tree.findall("svg")
    return [[(float(t.get("x", 0)), float(t.get("y", 0)), t.text or "") for t in one.iter("text")] for one in found]


def cells(words: list[Text], columns: list[str], rows: list[str]) -> list[list[str]]:
    """What stands below and beside which label: the text nearest to where a column's and a row's label cross."""
    across = {name: x for x, y, name in words if name in columns and y == max(v for _, v, n in words if n == name)}
    down = {name: y for x, y, name in words if name in rows and x == min(u for u, _, n in words if n == name)}
    inside = [one for one in words if one[2] not in columns and one[0] > min(across.values()) - 1]
    return [
        [min(inside, key=lambda one: abs(one[0] - across[c]) + abs(one[1] - down[r]))[2] for c in columns] for r in rows
    ]
