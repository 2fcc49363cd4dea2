"""Part 5, continued: where the subtraction loses."""

from __future__ import annotations

from diffattn.lesson.draws import measure
from diffattn.lesson.estimates import Estimate
from diffattn.lesson.pages.part import Cell, Chart, Column, Series, Step, Table, both, pair
from diffattn.lesson.parts.match_in_noise import MARGIN, gain, model, pairs
from diffattn.planning.noise_model import losing_strength

__all__ = ["headphones", "where_it_loses"]

LAMBDAS, STRENGTHS = (1.0, 0.8, 0.5), (0.5, 0.9, 1.1, 1.5)
SECOND_MARGINS = (0.0, 2.0, 3.0, 3.5, 4.0, 5.0)


def where_it_loses() -> Step:
    columns = [Column("s", form="g")]
    for lam in LAMBDAS:
        columns += both(f"gain, lambda {lam:g}", ".3f")
    edges = ", ".join(f"{losing_strength(lam):.3f}" for lam in LAMBDAS)
    return Step(
        heading="Where a fixed lambda loses",
        text=(
            "The maps are independent (rho = 0) and lambda is fixed. The gain below 1 is a loss: subtracting adds the "
            "second map's own noise.",
        ),
        formula="lambda loses above s sqrt(1 - rho):   "
        + ",  ".join(f"{lam:g}: {losing_strength(lam):.3f}" for lam in LAMBDAS),
        table=Table(tuple(columns), [_losing_row(s) for s in STRENGTHS]),
        charts=(_losing_chart(),),
        shows=f"Lambda 1, 0.8 and 0.5 lose above {edges}; the best lambda never loses while the second map holds less "
        "of the match.",
    )


def _losing_row(s: float) -> tuple[Cell, ...]:
    return s, *(cell for lam in LAMBDAS for cell in (gain(s, 0.0, lam), model(s, 0.0).gain(lam)))


def _losing_chart() -> Chart:
    fine = [x / 50 for x in range(20, 81)]
    series = [Series("softmax", "derived", [(s, 1.0) for s in fine])]
    for lam in LAMBDAS:
        curve, points = [(s, model(s, 0).gain(lam)) for s in fine], [(s, gain(s, 0.0, lam)) for s in STRENGTHS]
        series += pair(f"lambda {lam:g}", curve, points)
    return Chart(
        title="Gain of a fixed lambda, independent maps",
        x="strength of the noise s",
        y="gain over softmax (below 1: it loses)",
        series=tuple(series),
    )


def headphones() -> Step:
    rows: list[tuple[Cell, ...]] = []
    points = []
    for margin in SECOND_MARGINS:
        m = model(1.0, 0.9, margin)
        found = measure(m, pairs(1.0, 0.9), 0.8)
        best = m.best_lambda()
        points.append((margin, found.signal_to_noise))
        rows.append((margin, found.match, found.signal_to_noise, m.signal_to_noise(0.8), best, m.signal_to_noise(best)))
    return Step(
        heading="The headphones, and where the analogy breaks",
        text=(
            "Headphones that cancel noise have a second microphone. It hears the street and not the music; what it "
            "hears is subtracted. Differential attention is like that as long as its second map hears the noise alone.",
            "Nothing guarantees this. What both maps hold is removed, the match included. Here the match gets a margin "
            f"m2 in the second map too (m1 = {MARGIN:g}, s = 1, rho = 0.9, lambda = 0.8). Soon past m1 the match "
            "comes out upside down, with a weight below 0: the second map has become the signal.",
        ),
        table=Table(
            (
                Column("m2", form="g"),
                Column("weight of the match", "measured", ".5f"),
                *both("S/N at 0.8", ".1f"),
                Column("best lambda, upright match", "derived", ".3f"),
                Column("S/N at the best", "derived", ".1f"),
            ),
            rows,
        ),
        charts=(_headphones_chart(points),),
        shows="What the second map holds of the match is lost; where it holds as much as the first, no lambda above 0 "
        "helps an upright match.",
    )


def _headphones_chart(points: list[tuple[float, Estimate]]) -> Chart:
    fine = [margin / 20 for margin in range(101)]
    softmax = model(1, 0.9).signal_to_noise()
    return Chart(
        title="The match's margin in the second map",
        x=f"margin m2 in the second map (m1 = {MARGIN:g})",
        y="signal-to-noise",
        series=(
            *pair("lambda 0.8", [(x, model(1, 0.9, x).signal_to_noise(0.8)) for x in fine], points),
            Series("softmax", "derived", [(x, softmax) for x in fine]),
        ),
    )
