"""The numbers of trained models that the lesson shows, out of docs/results.

python docs/lesson_results.py            says which studies are out of date
python docs/lesson_results.py --write    writes src/diffattn/lesson/trained.json

A study that docs/results does not hold yet keeps what is stored of it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from diffattn.report.wording import finite, variant_name
from diffattn.storage import read_json, write_text

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
STORED = ROOT / "src" / "diffattn" / "lesson" / "trained.json"
_COMPARED = (
    "hypothesis",
    "variant",
    "baseline",
    "measure",
    "unit",
    "at",
    "lower",
    "values",
    "baseline_values",
    "difference_mean",
    "interval_low",
    "interval_high",
    "p",
    "p_holm",
    "detectable",
    "outcome",
)

Results = Mapping[str, Any]


def needle(results: Results) -> dict[str, Any]:
    """Of each run: what it answered at each length."""
    lengths = results["lengths"]

    def shares(run: Results, what: str) -> list[float | None]:
        rates = [(run["retrieval"].get(str(length)) or {}).get("rates") or {} for length in lengths]
        return [finite((found.get(what) or {}).get("share")) for found in rates]

    kept = ("accuracy", "fabrication", "false_citation")
    return {
        "lengths": lengths,
        "conditions": results["conditions"],
        "runs": [
            {key: run[key] for key in ("condition", "variant", "seed", "learned")}
            | {what: shares(run, what) for what in kept}
            for run in results["runs"]
        ],
        "comparisons": _compared(results),
    }


def language(results: Results) -> dict[str, Any]:
    """Of each run: its size and what it made of the test text."""

    def of(run: Results) -> dict[str, Any]:
        test = run["evaluation"].get("test") or {}
        measured = {key: finite(test.get(key)) for key in ("bits_per_byte", "perplexity_word")}
        return {key: run[key] for key in ("variant", "seed", "parameters")} | measured

    return {
        "corpus": results["corpus"]["name"],
        "tokens": max(run["tokens"] for run in results["runs"]),
        "context": results["settings"]["context"],
        "runs": [of(run) for run in results["runs"]],
        "comparisons": _compared(results),
    }


def stability(results: Results) -> dict[str, Any]:
    """Of each run: its events and its largest numbers."""

    def of(run: Results) -> dict[str, Any]:
        norms = [value for value in map(finite, run["curves"]["gradient_norm"]) if value is not None]
        named = {"rate": run["learning_rate"], "clip": run["max_grad_norm"]}
        largest = {"largest_gradient_norm": max(norms, default=None)}
        return {key: run[key] for key in ("variant", "seed")} | named | run["events"] | largest

    return {
        "rates": results["rates"],
        "clips": results["clips"],
        "steps": max(run["steps"] for run in results["runs"]),
        "runs": [of(run) for run in results["runs"]],
        "outcomes": results["outcomes"],
    }


STUDIES: dict[str, Callable[[Results], dict[str, Any]]] = {
    "needle": needle,
    "language": language,
    "stability": stability,
}


def taken(study: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """What the lesson needs of a study; None where the folder has no results of it."""
    results = read_json(folder / study / "results.json")
    if results is None:
        return None
    sizes = [run["parameters"] for run in results["runs"]]
    head = {
        "trial": folder != RESULTS,
        "command": results["command"],
        "parameters": [min(sizes), max(sizes)],
        "seeds": results["seeds"],
        "variants": results["variants"],
        "names": {name: variant_name(name) for name in results["variants"]},
    }
    return head | STUDIES[study](results)


def _compared(results: Results) -> list[dict[str, Any]]:
    return [{key: entry[key] for key in _COMPARED} for entry in results["comparisons"]]


def laid_out(studies: Mapping[str, Mapping[str, Any]]) -> str:
    """JSON with a line for each run."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {_study(found)}" for name, found in studies.items()) + "\n}\n"


def _study(found: Mapping[str, Any]) -> str:
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {_entry(value)}" for key, value in found.items()) + "\n}"


def _entry(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"  {json.dumps(row, allow_nan=False)}" for row in value) + "\n ]"
    return json.dumps(value, allow_nan=False)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The numbers of trained models that the lesson shows.")
    parser.add_argument("--write", action="store_true", help="write them into the lesson")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="another folder, whose numbers count as a trial's"
    )
    given = parser.parse_args(arguments)
    stored = read_json(STORED) or {}
    found = {study: taken(study, given.results) for study in STUDIES}
    for study, new in found.items():
        state = "not there" if new is None else "as stored" if new == stored.get(study) else "out of date"
        print(f"{study}: {'written' if given.write and state == 'out of date' else state}")
    if given.write:
        kept = {study: new if new is not None else stored[study] for study, new in found.items()}
        write_text(STORED, laid_out(kept))


if __name__ == "__main__":
    main()
