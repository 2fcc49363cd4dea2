"""The declarative charts of a study's results, as `report.experiment_charts` draws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from diffattn.experiments.studies.variants import STUDY_VARIANTS
from diffattn.report.wording import finite, number, variant_name

__all__ = ["axis", "curves_chart", "index_of", "mean_curve", "seed_curves"]

Run = Mapping[str, Any]


def axis(label: str, **look: Any) -> dict[str, Any]:
    """An axis: `label`, and `log`, `lengths`, `from_zero`, `level` or `marks` as `report.charts.Axis` has them."""
    return {"label": label, **look}


def index_of(variant: str, names: Sequence[str]) -> int:
    """The colour of a variant: the same in every study's charts; of any other name its place among `names`."""
    return (list(STUDY_VARIANTS) if variant in STUDY_VARIANTS else list(names)).index(variant)


def curves_chart(
    name: str, title: str, caption: str, x: dict[str, Any], y: dict[str, Any], curves: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """A chart of curves with its text alternative; None where there is nothing to draw."""
    shown = [curve for curve in curves if curve.get("points") or curve.get("line")]
    if not shown:
        return None
    alt = f"{title}: {'; '.join(map(_ends, shown))}."
    return {
        "kind": "curves",
        "name": name,
        "title": title,
        "caption": caption,
        "alt": alt,
        "x": x,
        "y": y,
        "curves": shown,
    }


def seed_curves(
    runs: Sequence[Run], values: Callable[[Run], Sequence[float | None] | None], variants: Sequence[str]
) -> list[dict[str, Any]]:
    """For each variant the mean over seeds as a line over training tokens, and the lowest to highest as a band.

    Args:
        runs: results of `text_job.run`.
        values: of a run, one for each logged entry.
        variants: in the order of the legend.
    """
    found = []
    for variant in variants:
        own = [(run["curves"]["tokens"], values(run)) for run in runs if run["variant"] == variant]
        curve = mean_curve([(x, y) for x, y in own if y])
        if curve:
            found.append({"name": variant_name(variant), "variant": index_of(variant, variants), "points": [], **curve})
    return found


def mean_curve(curves: Sequence[tuple[Sequence[float], Sequence[float | None]]]) -> dict[str, Any] | None:
    """`line` and `band` of several curves of the same length; a gap in one is a gap in the mean."""
    if not curves:
        return None
    line, band = [], []
    for place, x in enumerate(curves[0][0]):
        values = [finite(y[place]) if place < len(y) else None for _, y in curves]
        whole = [value for value in values if value is not None]
        broken = len(whole) < len(values)
        line.append([x, None if broken else fmean(whole)])
        band.append([x, None if broken else min(whole), None if broken else max(whole)])
    return {"line": line, "band": band} if len(curves) > 1 else {"line": line}


def _ends(curve: Mapping[str, Any]) -> str:
    values = [point[1] for point in curve.get("points") or curve["line"] if finite(point[1]) is not None]
    if not values:
        return f"{curve['name']} has no finite value"
    return f"{curve['name']} goes from {number(values[0], 3)} to {number(values[-1], 3)}"
