"""Part 5: cancellation measured, where it wins and where it loses."""

from __future__ import annotations

import math
from functools import cache

from diffattn.lesson.controls import closed_form_fails, the_cheap_controls
from diffattn.lesson.draws import Pair, draw, measure
from diffattn.lesson.estimates import Estimate
from diffattn.lesson.part import Cell, Chart, Column, Exercise, Part, Series, Step, Table, both
from diffattn.planning.noise_model import NoiseModel, limit_gain, losing_strength

__all__ = ["PART", "model", "needed_strength"]

LENGTH, MARGIN, DRAWS = 4_096, 4.0, 24
STRENGTHS = (0.25, 0.5, 1.0, 1.5)
CORRELATIONS = (0.0, 0.3, 0.6, 0.9, 0.98)
LAMBDAS = (1.0, 0.8, 0.5)
SECOND_MARGINS = (0.0, 2.0, 3.0, 3.5, 4.0, 5.0)


def model(strength: float, correlation: float, second_margin: float = 0.0) -> NoiseModel:
    return NoiseModel(
        length=LENGTH, margin=MARGIN, strength=strength, correlation=correlation, second_margin=second_margin
    )


@cache
def pairs(strength: float, correlation: float) -> list[Pair]:
    return draw(model(strength, correlation), DRAWS, seed=50)


def measured(strength: float, correlation: float, lam: float = 0.0) -> Estimate:
    return measure(model(strength, correlation), pairs(strength, correlation), lam).signal_to_noise


def over_the_strength() -> Step:
    columns = [Column("s", form="g"), *both("softmax", ".1f")]
    for correlation in (0.0, 0.9):
        columns += both(f"differential, rho {correlation:g}", ".1f")
    return Step(
        heading="Signal-to-noise over the strength of the noise",
        text=(
            f"{LENGTH:,} keys, one match of margin m = {MARGIN:g} in the first map and of none in the second. The "
            "noise of both maps has the strength s; at the same key the two correlate by rho. Lambda is the best one "
            "by the closed form.",
            "rho = 0: two maps that know nothing of each other. rho = 0.9: two maps drawn to the same wrong keys.",
        ),
        formula="signal-to-noise = |p1 - lam p2| / E|a1 - lam a2|        p: weight of the match, a: of another key",
        table=Table(tuple(columns), [_strength_row(s) for s in STRENGTHS]),
        charts=(_strength_chart(),),
        corrections=(
            "'Subtracting cancels the noise.' If the two maps' noise is independent, only its common mean cancels: at "
            f"s = 0.5 the best lambda gives {model(0.5, 0.0).gain(model(0.5, 0.0).best_lambda()):.2f} times softmax's "
            "signal-to-noise, and that is all.",
        ),
        shows="Weak noise cancels well, strong noise only where the two maps share it.",
    )


def _strength_row(s: float) -> tuple[Cell, ...]:
    row: list[Cell] = [s, measured(s, 0.0), model(s, 0.0).signal_to_noise()]
    for correlation in (0.0, 0.9):
        lam = model(s, correlation).best_lambda()
        row += [measured(s, correlation, lam), model(s, correlation).signal_to_noise(lam)]
    return tuple(row)


def _strength_chart() -> Chart:
    fine = [0.2 + 0.02 * i for i in range(66)]
    series = [Series("softmax", "derived", [(s, model(s, 0).signal_to_noise()) for s in fine])]
    for correlation in (0.0, 0.9):
        models = [(s, model(s, correlation)) for s in fine]
        name = f"rho {correlation:g}, best lambda"
        series += [
            Series(f"{name}, derived", "derived", [(s, m.signal_to_noise(m.best_lambda())) for s, m in models]),
            Series(
                f"{name}, measured",
                "measured",
                [(s, measured(s, correlation, model(s, correlation).best_lambda())) for s in STRENGTHS],
            ),
        ]
    return Chart(
        title="Signal-to-noise over the noise",
        x="strength of the noise s",
        y="signal-to-noise",
        y_log=True,
        series=tuple(series),
    )


def over_the_correlation() -> Step:
    rows: list[tuple[Cell, ...]] = []
    points, softmax = [], model(1.0, 0.0).signal_to_noise()
    for correlation in CORRELATIONS:
        m = model(1.0, correlation)
        found = measured(1.0, correlation, m.best_lambda())
        gain = Estimate(found.value / softmax, found.error / softmax, found.draws)
        points.append((correlation, gain))
        rows.append((correlation, m.best_lambda(), gain, m.gain(m.best_lambda()), limit_gain(1.0, correlation)))
    fine = [i / 100 for i in range(99)]
    needed = {gain: needed_strength(gain) for gain in (3, 10)}
    return Step(
        heading="Gain over the correlation of the two maps",
        text=(
            "Now s = 1, and rho is swept. The gain is the differential signal-to-noise over softmax's. At great "
            "length, with nothing of the match in the second map, the best lambda gains 1 / erf(s sqrt(1 - rho)).",
        ),
        formula="gain = 1 / erf(s sqrt(1 - rho))",
        table=Table(
            (
                Column("rho", form="g"),
                Column("best lambda", "derived", ".3f"),
                Column("gain", "measured", ".3f"),
                Column("gain", "derived", ".3f"),
                Column("its limit", "derived", ".3f"),
            ),
            rows,
        ),
        charts=(
            Chart(
                title="Gain of the best lambda over softmax, s = 1",
                x="correlation rho of the two maps' noise",
                y="gain in signal-to-noise",
                y_log=True,
                series=(
                    Series("1 / erf(s sqrt(1 - rho))", "derived", [(r, limit_gain(1.0, r)) for r in fine]),
                    Series("measured", "measured", list(points)),
                ),
            ),
        ),
        corrections=(
            "'3 to 10 times, reliably.' That needs s sqrt(1 - rho) of at most "
            f"{needed[3]:.3f} and {needed[10]:.3f}: at s = 1, correlations of {1 - needed[3] ** 2:.3f} and "
            f"{1 - needed[10] ** 2:.3f}.",
        ),
        shows="The gain is a matter of correlation: training must make the two maps wrong in the same places.",
    )


def needed_strength(gain: float) -> float:
    """The s sqrt(1 - rho) at which the best lambda gains this much, by bisection of `limit_gain`."""
    low, high = 1e-6, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if limit_gain(middle, 0.0) > gain else (low, middle)
    return low


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
        table=Table(tuple(columns), [_losing_row(s) for s in (0.5, 0.9, 1.1, 1.5)]),
        charts=(
            Chart(
                title="Gain of a fixed lambda, independent maps",
                x="strength of the noise s",
                y="gain over softmax (below 1: it loses)",
                series=tuple(
                    Series(f"lambda {lam:g}", "derived", [(x / 50, model(x / 50, 0).gain(lam)) for x in range(10, 81)])
                    for lam in LAMBDAS
                ),
            ),
        ),
        shows=f"Lambda 1, 0.8 and 0.5 lose above {edges}; the best lambda never loses while the second map holds less "
        "of the match.",
    )


def _losing_row(s: float) -> tuple[Cell, ...]:
    row: list[Cell] = [s]
    softmax = model(s, 0.0).signal_to_noise()
    for lam in LAMBDAS:
        found = measured(s, 0.0, lam)
        row += [Estimate(found.value / softmax, found.error / softmax, found.draws), model(s, 0.0).gain(lam)]
    return tuple(row)


def headphones() -> Step:
    rows: list[tuple[Cell, ...]] = []
    points = []
    for margin in SECOND_MARGINS:
        m = model(1.0, 0.9, margin)
        found = measure(m, pairs(1.0, 0.9), 0.8)
        best = m.best_lambda()
        points.append((margin, found.signal_to_noise))
        rows.append((margin, found.match, found.signal_to_noise, m.signal_to_noise(0.8), best, m.signal_to_noise(best)))
    heard = [margin / 20 for margin in range(121)]
    return Step(
        heading="The headphones, and where the analogy breaks",
        text=(
            "Headphones that cancel noise have a second microphone. It hears the street and not the music; what it "
            "hears is subtracted. Differential attention is like that as long as its second map hears the noise alone.",
            "Nothing guarantees this. What both maps hold is removed, the match included. Here the match gets a margin "
            f"m2 in the second map too (m1 = {MARGIN:g}, s = 1, rho = 0.9, lambda = 0.8). A weight below 0 means that "
            "the match is held against the output.",
        ),
        table=Table(
            (
                Column("m2", form="g"),
                Column("weight of the match", "measured", ".5f"),
                Column("S/N at 0.8", "measured", ".1f"),
                Column("S/N at 0.8", "derived", ".1f"),
                Column("best lambda", "derived", ".3f"),
                Column("S/N at the best", "derived", ".1f"),
            ),
            rows,
        ),
        charts=(
            Chart(
                title="The match's margin in the second map",
                x="margin m2 in the second map (m1 = 4)",
                y="signal-to-noise",
                series=(
                    Series(
                        "lambda 0.8, derived", "derived", [(x, model(1, 0.9, x).signal_to_noise(0.8)) for x in heard]
                    ),
                    Series("lambda 0.8, measured", "measured", points),
                    Series("softmax", "derived", [(x, model(1, 0.9).signal_to_noise()) for x in heard]),
                ),
            ),
        ),
        shows="Once the second map holds as much of the match as the first, the best lambda is 0: subtracting only "
        "removes the music.",
    )


def exercises() -> tuple[Exercise, ...]:
    half = limit_gain(0.5, 0.0)
    return (
        Exercise(
            "s = 0.5 and the maps are independent. What does the best lambda gain at great length?",
            f"1 / erf(0.5) = {half:.3f}: nearly twice, by removing the common mean alone.",
        ),
        Exercise(
            "s = 1, lambda is 0.8. From which correlation on does the subtraction win?",
            f"It loses above s sqrt(1 - rho) = {losing_strength(0.8):.3f}, which is more than 1: at s = 1 lambda 0.8 "
            f"wins at every rho from 0 on. At s = 1.5 it needs rho above {1 - (losing_strength(0.8) / 1.5) ** 2:.2f}.",
        ),
        Exercise(
            "Which control must a measured gain of differential attention beat before it is a gain of the subtraction?",
            "Ordinary attention at its own best temperature: sharpening by c gives e^(c m - c^2 s^2/2), best at "
            f"c = m/s^2. For m = 4, s = 1 that is c = 4, and by the closed form e^{8:d} = {math.exp(8):,.0f} instead "
            f"of {model(1, 0).signal_to_noise():.0f}.",
        ),
    )


PART = Part(
    number=5,
    title="Cancellation measured",
    minutes=9,
    aim="Say where differential attention wins, by how much, where it loses, and what cheaper means reach.",
    steps=(
        over_the_strength,
        over_the_correlation,
        where_it_loses,
        headphones,
        the_cheap_controls,
        closed_form_fails,
    ),
    exercises=exercises,
)
