"""Part 10, continued: what small trained models found and invented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffattn.lesson.estimates import Estimate
from diffattn.lesson.outcomes import outcomes
from diffattn.lesson.pages.part import Cell, Chart, Column, Series, Step, Table
from diffattn.lesson.trained import name_of, origin, over_seeds, study

__all__ = ["small_models_find", "small_models_invent"]

ABSENT = "absent"
SHOWN = ("softmax", "gated", "v1", "v2")  # the rest of the controls are in docs/results


def small_models_find() -> Step:
    found = study("needle")
    conditions = [name for name in found["conditions"] if name != ABSENT]
    first = found["lengths"][0]
    return Step(
        heading="What small trained models found",
        text=(
            f"Small models were trained to find facts in {first} tokens, and asked at up to {found['lengths'][-1]:,}; "
            "all variants saw the same tokens, and each had its own best learning rate. The table has the share of "
            "questions answered right, a mean over seeds with its 95 % t interval.",
            origin(found),
        ),
        table=Table(
            (
                Column("task"),
                Column("attention"),
                *(Column(f"{length:,} tokens", "measured", ".2f") for length in found["lengths"]),
            ),
            [
                (_task(condition), name_of(variant, found), *_shares(condition, variant, "accuracy"))
                for condition in conditions
                for variant in _variants(condition)
            ],
        ),
        charts=tuple(chart for chart in map(_chart, conditions) if chart.series),
        shows=_said("accuracy"),
    )


def small_models_invent() -> Step:
    found = study("needle")
    rows: list[tuple[Cell, ...]] = []
    for what, words in (("fabrication", "answered what is absent"), ("false_citation", "cited a near-duplicate")):
        rows += [(words, name_of(name, found), *_shares(ABSENT, name, what)) for name in _variants(ABSENT)]
    return Step(
        heading="What small trained models invented",
        text=(
            "Here a quarter of the questions ask for a key that is not there, and the right answer is a token that "
            "says so; every fact has a near-duplicate. The table has the share of such questions that were answered "
            "all the same, and the share of the others that got the near-duplicate's value.",
        ),
        table=Table(
            (
                Column("what"),
                Column("attention"),
                *(Column(f"{length:,} tokens", "measured", ".2f") for length in found["lengths"]),
            ),
            rows or [("not measured", "-", *(None for _ in found["lengths"]))],
        ),
        corrections=(
            "'It ends hallucination.' The gains published are V1's, from its authors, judged by another model, and "
            "seen confirmed by nobody. What was found here is in the last line, whichever way it went.",
        ),
        shows=_said("fabrication", "false citation"),
    )


def _task(condition: str) -> str:
    return f"{condition}: {study('needle')['conditions'][condition]}"


def _runs(condition: str, variant: str) -> Sequence[Mapping[str, Any]]:
    return [run for run in study("needle")["runs"] if (run["condition"], run["variant"]) == (condition, variant)]


def _variants(condition: str) -> list[str]:
    return [name for name in SHOWN if _runs(condition, name)]


def _shares(condition: str, variant: str, what: str) -> list[Cell]:
    """At each length; words where a seed did not learn the task, which leaves the variant out."""
    runs = _runs(condition, variant)
    if not all(run["learned"] for run in runs):
        return ["not learned" for _ in study("needle")["lengths"]]
    return [over_seeds(values) for values in zip(*(run[what] for run in runs), strict=True)]


def _chart(condition: str) -> Chart:
    found, series = study("needle"), []
    for variant in _variants(condition):
        shares = _shares(condition, variant, "accuracy")
        cells = zip(found["lengths"], shares, strict=True)
        points = [(n, cell) for n, cell in cells if isinstance(cell, (float, Estimate))]
        if points:
            series.append(Series(f"{name_of(variant, found)}, measured", "measured", points))
    return Chart(
        title=f"Needles found by trained models: {found['conditions'][condition]}",
        x="tokens",
        y="share answered right",
        x_log=True,
        x_ticks=tuple(found["lengths"]),
        series=tuple(series),
    )


def _said(*measures: str) -> str:
    """The outcomes of the hypotheses about these measures; a hypothesis is named "variant, condition, measure"."""
    found = study("needle")
    entries = [one for one in found["comparisons"] if one["hypothesis"].split(", ")[2] in measures]

    def label(entry: Mapping[str, Any]) -> str:
        _, condition, measure = entry["hypothesis"].split(", ")
        return str(condition if measure == "accuracy" else measure)

    return f"Against softmax: {outcomes(found, entries, label)}"
