"""The web page about a noise result."""

from __future__ import annotations

from typing import Any

from diffattn.report.facts import pairs
from diffattn.report.noise_document import READING, drawings, tables
from diffattn.report.page import render_page
from diffattn.report.wording import as_given

__all__ = ["render_noise"]


def render_noise(results: dict[str, Any]) -> str:
    """The page about `results` (what `diffattn noise` stores as results.json) as text: answers, drawings, tables."""
    return render_page(
        "noise.html.j2",
        kind="diffattn noise",
        title=_title(results.get("options") or {}),
        answers=results.get("answers") or (),
        drawings=drawings(results),
        tables=tables(results),
        reading=READING,
        facts=_facts(results),
        command=results.get("command"),
    )


def _title(options: dict[str, Any]) -> str:
    measured = options.get("model") or options.get("run")
    if measured:
        return f"The noise of attention in {measured}"
    length = options.get("length")
    return f"The noise of attention at {as_given(length)} keys" if length else "The noise of attention"


def _facts(results: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    options = results.get("options") or {}
    shown = {**options, "lengths": ", ".join(map(as_given, options.get("lengths") or ()))} if options else {}
    sections = [
        ("Run", pairs({key: results[key] for key in ("created", "seed") if key in results})),
        ("Setting", pairs(shown)),
        ("Versions", pairs(results.get("versions"))),
        ("Machine", pairs(results.get("machine"))),
    ]
    return [(title, found) for title, found in sections if found]
