"""Part 12, continued: which small trained models broke, at which learning rate, with the norm and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from diffattn.lesson.pages.part import Cell, Column, Step, Table
from diffattn.lesson.trained import joined, name_of, origin, study, whole

__all__ = ["event_of", "the_norm_in_training", "where_it_broke"]

NORMS = ("softmax", "v1", "v1-no-norm", "v2")
LARGE = 10.0  # a lambda, as the study counts it

Run = Mapping[str, Any]


def _runs(variant: str, clip: float, rate: float) -> Sequence[Run]:
    wanted = (variant, clip, rate)
    return [run for run in study("stability")["runs"] if (run["variant"], run["clip"], run["rate"]) == wanted]


def _clipping(clip: float) -> str:
    return f"at {clip:g}" if clip else "none"


def where_it_broke() -> Step:
    found = study("stability")
    rows = [
        (name_of(name, found), _clipping(clip), *(event_of(_runs(name, clip, rate)) for rate in found["rates"]))
        for clip in found["clips"]
        for name in found["variants"]
    ]
    return Step(
        heading="Where small trained models broke",
        text=(
            f"{found['steps']:,} steps at each learning rate, with gradients clipped and not. An event is a loss that "
            "is not finite, a spike (half a nat above the lowest before it), or a lambda above 10. A cell without an "
            "event has the final training loss in nats a token.",
            origin(found),
        ),
        table=Table(
            (
                Column("attention"),
                Column("clipping"),
                *(Column(f"rate {rate:g}", "measured") for rate in found["rates"]),
            ),
            rows,
        ),
        corrections=(
            "'70B models need V2 for stability.' The number has no source: V2's authors say large scale and late in "
            "training, and the public report of V1's spikes is of 7B. No small run reproduces or refutes it, this one "
            "included.",
        ),
        shows=_said("V2 stable", "gate stable"),
    )


def event_of(runs: Sequence[Run]) -> str:
    """What happened to the runs of one setting, in a few words."""
    if not runs:
        return "not run"
    broken = [words for run in runs if (words := _event(run))]
    if len(runs) > 1 and broken:
        return f"{len(broken)} of {len(runs)}: {joined(list(dict.fromkeys(broken)))}"
    losses = whole([run["final_loss"] for run in runs])
    return broken[0] if broken else f"{fmean(losses):.3f}" if losses else "no loss"


def _event(run: Run) -> str:
    words = []
    if run["diverged"]:
        words.append("diverged")
    if run["spikes"]:
        words.append(f"{run['spikes']} spike{'s' if run['spikes'] > 1 else ''}")
    # A lambda that is not finite counts as large; of a run that diverged that is no news.
    if run["large_lambda_at"] is not None and not (run["diverged"] and (run["largest_lambda"] or 0) <= LARGE):
        words.append(f"lambda over {LARGE:g} at step {run['large_lambda_at']:,}")
    return joined(words) if words else ""


def the_norm_in_training() -> Step:
    found = study("stability")
    clip = min(found["clips"])
    rows = [
        (name_of(name, found), rate, *_largest(_runs(name, clip, rate)))
        for name in NORMS
        if name in found["variants"]
        for rate in found["rates"]
    ]
    return Step(
        heading="The norm in training",
        text=(
            f"The same runs, clipping {_clipping(clip)}: the final loss, and the largest that gradient norm, RMS of "
            "the context before any norm, and lambda came to. Look for rows where context or lambda grew and the loss "
            "did not tell.",
        ),
        table=Table(
            (
                Column("attention"),
                Column("rate", form="g"),
                Column("final loss", "measured", ".3f"),
                Column("gradient norm", "measured", ".3g"),
                Column("context RMS", "measured", ".3g"),
                Column("lambda", "measured", ".3g"),
            ),
            rows,
        ),
        shows=_said("norm hides", "norm needed"),
    )


def _largest(runs: Sequence[Run]) -> list[Cell]:
    losses = whole([run["final_loss"] for run in runs])
    cells: list[Cell] = [fmean(losses) if losses else None]
    for key in ("largest_gradient_norm", "largest_context_rms", "largest_lambda"):
        cells.append(max((run[key] for run in runs if run[key] is not None), default=None))
    return cells


def _said(*names: str) -> str:
    """The outcomes of these hypotheses, as the study judged them."""
    outcomes = [one for one in study("stability")["outcomes"] if one["hypothesis"] in names]
    return " ".join(f"'{one['hypothesis']}' is {one['outcome']}: {one['sentence']}" for one in outcomes)
