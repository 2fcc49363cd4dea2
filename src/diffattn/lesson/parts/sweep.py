"""Part 6: the sweep of lambda."""

from __future__ import annotations

import math
from functools import cache

from diffattn.lesson.draws import Measured, draw, measure
from diffattn.lesson.pages.part import Cell, Chart, Column, Exercise, Part, Series, Step, Table, both, pair
from diffattn.lesson.parts.closed_form import Symbols
from diffattn.lesson.parts.fixed_lambda import over_the_length
from diffattn.planning.noise_model import NoiseModel

__all__ = ["LAMBDAS", "PART", "best_measured", "model"]

LENGTH, MARGIN, STRENGTH, DRAWS = 4_096, 4.0, 1.0, 24
CORRELATIONS = (0.0, 0.5, 0.9)
STEP = 0.05
LAMBDAS = tuple(round(STEP * i, 2) for i in range(25))
FINE = tuple(i / 50 for i in range(61))
SHOWN = (0.0, 0.4, 0.6, 0.8, 0.9, 1.0, 1.2)


def model(correlation: float) -> NoiseModel:
    return NoiseModel(length=LENGTH, margin=MARGIN, strength=STRENGTH, correlation=correlation)


@cache
def swept(correlation: float) -> dict[float, Measured]:
    """Every lambda on the same draws."""
    pairs = draw(model(correlation), DRAWS, seed=62 + CORRELATIONS.index(correlation))
    return {lam: measure(model(correlation), pairs, lam) for lam in LAMBDAS}


def best_measured(correlation: float) -> float:
    found = swept(correlation)
    return max(LAMBDAS, key=lambda lam: found[lam].signal_to_noise.value)


def the_sweep() -> Step:
    columns = [Column("lambda", form="g")]
    for correlation in CORRELATIONS:
        columns += both(f"S/N, rho {correlation:g}", ".1f")
    rows: list[tuple[Cell, ...]] = []
    for lam in SHOWN:
        row: list[Cell] = [lam]
        for correlation in CORRELATIONS:
            row += [swept(correlation)[lam].signal_to_noise, model(correlation).signal_to_noise(lam)]
        rows.append(tuple(row))
    return Step(
        heading="Signal-to-noise from lambda 0 to past 1",
        text=(
            f"m = {MARGIN:g} in the first map and 0 in the second, s = {STRENGTH:g}, N = {LENGTH:,}. Lambda 0 is the "
            "first softmax alone.",
        ),
        table=Table(tuple(columns), rows),
        charts=(_chart(),),
        shows="There is a best lambda below 1, sharper the more the maps share; past 1 the subtraction puts the second "
        "map's noise in place of the first's.",
    )


def _chart() -> Chart:
    series: list[Series] = []
    for rho in CORRELATIONS:
        curve = [(x, model(rho).signal_to_noise(x)) for x in FINE]
        series += pair(f"rho {rho:g}", curve, [(lam, swept(rho)[lam].signal_to_noise) for lam in LAMBDAS[::2]])
    return Chart(title="Signal-to-noise over lambda", x="lambda", y="signal-to-noise", series=tuple(series))


def row_sum_and_negative_mass() -> Step:
    found, m = swept(0.9), model(0.9)
    rows: list[tuple[Cell, ...]] = []
    for lam in SHOWN:
        one = found[lam]
        negative, mass = m.negative_mass(lam), m.noise_mass(lam)
        rows.append((lam, one.row_sum, 1 - lam, one.negative, negative, one.noise_mass, mass))
    return Step(
        heading="What else lambda does: row sum and negative weights",
        text=(
            "A row of the signed map sums to 1 - lambda. Its weights need not be positive. The negative mass is what "
            "the noise keys have below zero; the noise mass counts both signs.",
        ),
        formula="row sum = 1 - lam",
        table=Table(
            (
                Column("lambda", form="g"),
                *both("row sum", ".1f"),
                *both("negative mass", ".3f"),
                *both("noise mass", ".3f"),
            ),
            rows,
        ),
        charts=(_mass_chart(),),
        shows="At lambda 1 the row sums to 0, half of its mass is negative, and the noise mass is smallest just below "
        "it.",
    )


def _mass_chart() -> Chart:
    found, m = swept(0.9), model(0.9)
    masses = pair("noise mass", [(x, m.noise_mass(x)) for x in FINE], [(x, found[x].noise_mass) for x in LAMBDAS[::2]])
    negative = pair(
        "negative mass", [(x, m.negative_mass(x)) for x in FINE], [(x, found[x].negative) for x in LAMBDAS[::2]]
    )
    return Chart(title="Masses over lambda, rho 0.9", x="lambda", y="mass", series=(*masses, *negative))


def the_best_lambda() -> Step:
    rows: list[tuple[Cell, ...]] = [
        (
            rho,
            best_measured(rho),
            model(rho).best_lambda(),
            swept(rho)[best_measured(rho)].signal_to_noise,
            model(rho).signal_to_noise(model(rho).best_lambda()),
        )
        for rho in CORRELATIONS
    ]
    return Step(
        heading="The best lambda, found and derived",
        text=(
            f"Measured: the best of a grid with steps of {STEP:g}. Derived: the root of a condition on the two normal "
            "distances d1 and d2, as in 5.1. Without a match in the second map delta is 0 and d2 is 0, which says "
            "ln(u/w) = sigma^2/2: the last line below.",
        ),
        formula="2 Phi(d2) - 1 = delta (2 Phi(d1) - 1),    sigma^2 = 2 s^2 (1 - rho)\n"
        "no match in map 2, equal s: lam* = (Z2/Z1) e^(-sigma^2/2)",
        table=Table(
            (
                Column("rho", form="g"),
                Column("best lambda", "measured", ".2f"),
                Column("best lambda", "derived", ".3f"),
                *both("S/N there", ".1f"),
            ),
            rows,
        ),
        shows="The less the maps share, the smaller the best lambda: a model should learn it, by token and head.",
    )


def exercises() -> tuple[Exercise, ...]:
    short = NoiseModel(length=512, margin=8.0, strength=1.0, correlation=0.9)
    s, others = Symbols(short, 0.9), f"{short.length - 1} e^(1/2)"
    return (
        Exercise(
            "The sweep: for m = 4, s = 1, N = 4,096 and rho = 0.5, which of the lambdas 0.4, 0.6, 0.8 and 1.0 is best, "
            "and is the second best far behind?",
            "By the closed form they give "
            + ", ".join(f"{model(0.5).signal_to_noise(lam):.1f}" for lam in (0.4, 0.6, 0.8, 1.0))
            + f"; the best of all is {model(0.5).best_lambda():.2f}. The top is flat: a lambda 0.1 off costs little.",
        ),
        Exercise(
            "A row sums to 0 at lambda 1. Can such a head still copy a value?",
            "Yes. The match keeps a positive weight, and negative weights on the others bring the sum to 0. But a part "
            "that all values share is removed from the output.",
        ),
        Exercise(
            "With m1 = 8, m2 = 0, s = 1, rho = 0.9, what does lambda 0.9 do at 512 keys, and what would the best be?",
            f"By 5.1: Z1 = e^8 + {others} = {s.z1:,.1f}, Z2 = 1 + {others} = {s.z2:,.1f}, u = {s.u:.4g}, w = "
            f"{s.w:.4g}, sigma = {s.sigma:.4f}, d1 = {s.d1:.3f}, d2 = {s.d2:.3f}, so E|a1 - lam a2| = {s.noise:.4g}. "
            f"The match has p1 - 0.9 p2 = {s.signal:.4f}, and signal-to-noise is {s.signal / s.noise:,.0f}, against "
            f"softmax's e^7.5 = {short.signal_to_noise():,.0f}: it over-subtracts. delta = e^-8 is nearly 0, so the "
            f"best is (Z2/Z1) e^(-sigma^2/2) = {s.z2 / s.z1 * math.exp(-(s.sigma**2) / 2):.3f}, which gives "
            f"{short.signal_to_noise(short.best_lambda()):,.0f}.",
        ),
    )


PART = Part(
    number=6,
    title="The lambda sweep",
    minutes=3,
    aim="say what lambda trades, and find its best value by measurement and by formula.",
    steps=(the_sweep, row_sum_and_negative_mass, the_best_lambda, over_the_length),
    exercises=exercises,
)
