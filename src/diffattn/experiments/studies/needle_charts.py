"""Charts of the needle study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffattn.experiments.studies.charts import axis, curves_chart, index_of
from diffattn.experiments.studies.needle_values import cells, over_seeds, rate_at, runs_of, usable, variants_of
from diffattn.report.wording import variant_name

__all__ = ["needle_charts"]

Results = Mapping[str, Any]


def needle_charts(results: Results) -> list[dict[str, Any]]:
    """Accuracy over length, depth x length, training accuracy, and the maps at a question."""
    found: list[dict[str, Any] | None] = []
    for condition in results["conditions"]:
        found += [_length_chart(results, condition), _heat(results, condition), _learning(results, condition)]
    found += [_maps(results, variant) for variant in results["variants"]]
    return [chart for chart in found if chart]


def _length_chart(results: Results, condition: str) -> dict[str, Any] | None:
    curves = []
    for variant in variants_of(results, condition):
        own = runs_of(results, condition, variant)
        if not usable(own):
            continue
        points = []
        for length in results["lengths"]:
            found = over_seeds([rate_at(run, length, "accuracy") for run in own])
            points += [[length, *found]] if found else []
        line = [[x, value] for x, value, _, _ in points]
        curves.append({"name": variant_name(variant), "variant": index_of(variant, ()), "points": points, "line": line})
    return curves_chart(
        f"accuracy-{condition}",
        f"Accuracy over length: {results['conditions'][condition]}",
        "Means over seeds; bars from the lowest to the highest. Variants that did not learn the task are left out.",
        axis("tokens", log=True, lengths=True),
        axis("accuracy"),
        curves,
    )


def _heat(results: Results, condition: str) -> dict[str, Any] | None:
    panels: list[tuple[str, list[list[float | None]]]] = []
    for variant in variants_of(results, condition):
        own = runs_of(results, condition, variant)
        if not usable(own):
            continue
        grids = [[cells(run, length) for length in results["lengths"]] for run in own]
        values = [
            [_mean([grid[at][depth] for grid in grids]) for at in range(len(results["lengths"]))] for depth in range(5)
        ]
        panels.append((variant_name(variant), values))
    if not panels:
        return None
    title = f"Accuracy by depth and length: {results['conditions'][condition]}"
    said = [f"{name} {_range(values)}" for name, values in panels]
    return {
        "kind": "heat",
        "name": f"depth-{condition}",
        "title": title,
        "caption": "Share of questions answered right by where the fact stands, means over seeds.",
        "alt": f"{title}: {'; '.join(said)}.",
        "rows": {"label": "depth", "values": ["0%", "25%", "50%", "75%", "100%"]},
        "columns": {"label": "tokens", "values": [f"{length:,}" for length in results["lengths"]]},
        "panels": [{"title": name, "values": values} for name, values in panels],
        "low": 0.0,
        "high": 1.0,
        "unit": "accuracy",
    }


def _mean(values: Sequence[float | None]) -> float | None:
    found = over_seeds(values)
    return None if found is None else round(found[0], 4)


def _range(values: Sequence[Sequence[float | None]]) -> str:
    whole = [value for row in values for value in row if value is not None]
    return f"from {min(whole):.2f} to {max(whole):.2f}" if whole else "has no value"


def _learning(results: Results, condition: str) -> dict[str, Any] | None:
    curves = []
    for variant in variants_of(results, condition):
        own = runs_of(results, condition, variant)[:1]
        for run in own:
            line = [list(pair) for pair in zip(run["curves"]["step"], run["curves"]["accuracy"], strict=True)]
            curves.append({"name": variant_name(variant), "variant": index_of(variant, ()), "points": [], "line": line})
    return curves_chart(
        f"learning-{condition}",
        f"Training accuracy: {results['conditions'][condition]}",
        "First seed; the length grows whenever the threshold is reached.",
        axis("step"),
        axis("accuracy"),
        curves,
    )


def _maps(results: Results, variant: str) -> dict[str, Any] | None:
    """The maps of the first seed at the first question of the task without positions."""
    own = [run for run in runs_of(results, "plain", variant) if run.get("maps")][:1]
    if not own:
        return None
    maps, name = own[0]["maps"], variant_name(variant)
    drawn = [("first map", maps["first"]), ("second map", maps["second"]), ("signed map", maps["signed"])]
    panels = [{"title": title, "values": values, "answer": maps["answer"]} for title, values in drawn if values]
    said = [f"{panel['title']} gives the answer {panel['values'][maps['answer']]:.3f}" for panel in panels]
    title = f"{name}: attention at the answer's query"
    return {
        "kind": "maps",
        "name": f"maps-{variant}",
        "title": title,
        "caption": f"Layer {maps['layer'] + 1}, head {maps['head'] + 1}, the one that gives the answer most.",
        "alt": f"{title}: {'; '.join(said)}.",
        "panels": panels,
    }
