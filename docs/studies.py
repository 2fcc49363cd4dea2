"""What docs/results/README.md says of the studies, made from their results files alone.

python docs/studies.py            says whether the page is out of date
python docs/studies.py --write    writes each study's part between its markers
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diffattn.report.wording import duration

RESULTS = Path(__file__).parent / "results"
PAGE = RESULTS / "README.md"
# What stands in the page beside the verdict, by the table's name.
TABLES = {
    "needle": ("accuracy-plain", "accuracy-floor", "accuracy-rope", "accuracy-rope-long", "fabrication", "switch-off"),
    "language": ("variants", "comparisons", "outliers", "robustness", "switch-off"),
    "stability": ("events-clip1", "events-clip0", "rms-clip0", "costs"),
    "scale": ("variants", "comparisons"),
}
BLOCK = re.compile(r"(<!-- study (\w+) -->\n).*?(<!-- /study -->)", flags=re.DOTALL)


def part(name: str) -> str:
    """One study in Markdown: how it was run, what came of it, tables, failures, limits."""
    results = json.loads((RESULTS / name / "results.json").read_text())
    said = [
        f"`{results['command']}`, {results['created'][:10]}, {about(results)}.",
        bullets(results["verdict"]),
        "Hypotheses, written before the first run, with p values corrected for their number:",
        bullets(f"{entry['outcome']}: {entry['sentence']}" for entry in results["outcomes"]),
        *(table(entry) for entry in chosen(results, TABLES[name])),
        *(["Failures:", bullets(results["failures"])] if results["failures"] else []),
        "What it does not show:",
        bullets(results["limits"]),
    ]
    return "\n\n".join(said)


def about(results: dict[str, Any]) -> str:
    """Seeds, size, versions, machine, time taken."""
    seeds, versions, machine = results["seeds"], results["versions"], results["machine"]
    return (
        f"seeds {', '.join(map(str, seeds))}, {len(results['runs'])} runs beside the tuning, {machine['cores']} cores "
        f"({machine['cpu']}), torch {versions['torch']}, transformers {versions['transformers']}, "
        f"{duration(results['seconds'])} with other work beside it"
    )


def chosen(results: dict[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    return [entry for name in names for entry in results["tables"] if entry["name"] == name]


def bullets(sentences: Any) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def table(entry: dict[str, Any]) -> str:
    lines = [entry["head"], ["---"] * len(entry["head"]), *entry["rows"]]
    rows = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    return f"{entry['title']}. {entry['note']}\n\n{rows}"


def with_studies(page: str) -> str:
    """The page with each study's part as its results are now."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{part(found[2])}\n\n{found[3]}", page)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The studies' parts of docs/results/README.md.")
    parser.add_argument("--write", action="store_true", help="write them into the page")
    page = PAGE.read_text()
    new = with_studies(page)
    if new != page:
        print(f"{PAGE.name}: out of date")
    if new != page and parser.parse_args(arguments).write:
        PAGE.write_text(new)


if __name__ == "__main__":
    main()
