"""Part 5: cancellation measured, where it wins and where it loses."""

from __future__ import annotations

import math

from diffattn.lesson.estimates import Estimate
from diffattn.lesson.pages.part import Cell, Chart, Column, Exercise, Part, Series, Step, Table, both, pair
from diffattn.lesson.parts.closed_form import the_closed_form
from diffattn.lesson.parts.controls import closed_form_fails, the_cheap_controls
from diffattn.lesson.parts.losses import headphones, where_it_loses
from diffattn.lesson.parts.match_in_noise import LENGTH, MARGIN, gain, measured, model
from diffattn.planning.noise_model import limit_gain, losing_strength

__all__ = ["PART", "needed_strength"]

STRENGTHS = (0.25, 0.5, 1.0, 1.5)
CORRELATIONS = (0.0, 0.3, 0.6, 0.9, 0.98)


def over_the_strength() -> Step:
    columns = [Column("s", form="g"), *both("softmax", ".1f")]
    for correlation in (0.0, 0.9):
        columns += both(f"best lambda, rho {correlation:g}", ".1f")
    return Step(
        heading="Signal-to-noise over the strength of the noise",
        text=(
            f"{LENGTH:,} keys, one match of margin m = {MARGIN:g} in the first map and of none in the second. The "
            "noise of both maps has the strength s; at the same key the two correlate by rho. Lambda is the best one "
            "by the closed form.",
            "rho = 0: two maps that know nothing of each other. rho = 0.9: two maps drawn to the same wrong keys.",
        ),
        formula="signal-to-noise = |p1 - lam p2| / E|a1 - lam a2|\n"
        "p: weight of the match, a: weight of another key, in the two maps",
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
    for rho in (0.0, 0.9):
        models = [(s, model(s, rho)) for s in fine]
        curve = [(s, m.signal_to_noise(m.best_lambda())) for s, m in models]
        points = [(s, measured(s, rho, model(s, rho).best_lambda())) for s in STRENGTHS]
        series += pair(f"rho {rho:g}, best lambda", curve, points)
    return Chart(
        title="Signal-to-noise over the noise",
        x="strength of the noise s",
        y="signal-to-noise",
        y_log=True,
        series=tuple(series),
    )


def over_the_correlation() -> Step:
    rows: list[tuple[Cell, ...]] = []
    points = []
    for correlation in CORRELATIONS:
        m = model(1.0, correlation)
        found = gain(1.0, correlation, m.best_lambda())
        points.append((correlation, found))
        rows.append((correlation, m.best_lambda(), found, m.gain(m.best_lambda()), limit_gain(1.0, correlation)))
    needed = {times: needed_strength(times) for times in (3, 10)}
    return Step(
        heading="Gain over the correlation of the two maps",
        text=(
            "Now s = 1, and rho is swept. The gain is the differential signal-to-noise over softmax's. At great "
            "length, with nothing of the match in the second map, the best lambda gains 1 / erf(s sqrt(1 - rho)): the "
            "last line of 5.1. Which rho a trained model's maps have: `diffattn noise --model MODEL`.",
        ),
        formula="gain = 1 / erf(s sqrt(1 - rho))",
        table=Table(
            (
                Column("rho", form="g"),
                Column("best lambda", "derived", ".3f"),
                *both("gain", ".3f"),
                Column("its limit", "derived", ".3f"),
            ),
            rows,
        ),
        charts=(_gain_chart(points),),
        corrections=(
            "'3 to 10 times, reliably.' That needs s sqrt(1 - rho) of at most "
            f"{needed[3]:.3f} and {needed[10]:.3f}: at s = 1, correlations of {1 - needed[3] ** 2:.3f} and "
            f"{1 - needed[10] ** 2:.3f}.",
        ),
        shows="The gain is a matter of correlation: training must make the two maps wrong in the same places.",
    )


def _gain_chart(points: list[tuple[float, Estimate]]) -> Chart:
    return Chart(
        title="Gain of the best lambda over softmax, s = 1",
        x="correlation rho of the two maps' noise",
        y="gain in signal-to-noise",
        y_log=True,
        series=pair("gain", [(i / 100, limit_gain(1.0, i / 100)) for i in range(99)], points),
    )


def needed_strength(gain: float) -> float:
    """The s sqrt(1 - rho) at which the best lambda gains this much, by bisection of `limit_gain`."""
    low, high = 1e-6, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if limit_gain(middle, 0.0) > gain else (low, middle)
    return low


def exercises() -> tuple[Exercise, ...]:
    return (
        Exercise(
            "s = 0.5 and the maps are independent. What does the best lambda gain at great length?",
            f"1 / erf(0.5) = {limit_gain(0.5, 0.0):.3f}: nearly twice, by removing the common mean alone.",
        ),
        Exercise(
            "s = 1, lambda is 0.8. From which correlation on does the subtraction win?",
            f"It loses above s sqrt(1 - rho) = {losing_strength(0.8):.3f}, so it wins for rho > 1 - "
            f"{losing_strength(0.8):.3f}^2 = {1 - losing_strength(0.8) ** 2:.3f}: at s = 1 "
            f"even with maps that are slightly opposed. At s = 1.5 it needs rho above "
            f"{1 - (losing_strength(0.8) / 1.5) ** 2:.2f}.",
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
    aim="say where differential attention wins, by how much, where it loses, and what cheaper means reach.",
    steps=(
        the_closed_form,
        over_the_strength,
        over_the_correlation,
        where_it_loses,
        headphones,
        the_cheap_controls,
        closed_form_fails,
    ),
    exercises=exercises,
)
