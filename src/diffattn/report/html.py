"""The web page about a comparison: one file, nothing fetched, no script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffattn.report.facts import facts, intervals
from diffattn.report.page import render_page, write_page
from diffattn.report.plots import plots
from diffattn.report.svg import legend_entry
from diffattn.report.table import COLUMNS, rows
from diffattn.report.wording import join_words, variant_name

__all__ = ["render", "write_report"]


def write_report(results: dict[str, Any], path: Path) -> None:
    """Writes the page about `results` (what `compare` stores as results.json) to `path`, whole or not at all.

    Raises:
        UserError: `path` cannot be written.
    """
    write_page(render(results), Path(path))


def render(results: dict[str, Any]) -> str:
    """The page as text. Whatever is missing from `results`, or not finite, is left out or shown as a dash."""
    variants = [str(variant) for variant in results.get("variants") or ()]
    series = {name: legend_entry(variant_name(name), index) for index, name in enumerate(variants)}
    return render_page(
        "compare.html.j2",
        kind="diffattn compare",
        title=_title(results, variants),
        verdict=[str(sentence) for sentence in results.get("verdict") or ()],
        columns=COLUMNS,
        rows=rows(results),
        intervals=intervals(results),
        plots=[(plot, [series[name] for name in plot.variants]) for plot in plots(results)],
        facts=facts(results),
        command=results.get("command"),
    )


def _title(results: dict[str, Any], variants: list[str]) -> str:
    corpus = (results.get("corpus") or {}).get("name")
    on = f" on {corpus}" if corpus else ""
    return f"{join_words([variant_name(variant) for variant in variants]) or 'No variant'}{on}"
