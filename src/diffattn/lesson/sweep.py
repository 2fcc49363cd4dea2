"""Part 6: the sweep of lambda."""

from __future__ import annotations

from functools import cache

from diffattn.lesson.draws import Measured, Pair, draw, measure
from diffattn.lesson.part import Cell, Chart, Column, Exercise, Part, Series, Step, Table, both
from diffattn.planning.noise_model import NoiseModel

__all__ = ["LAMBDAS", "PART", "best_measured", "model"]

LENGTH, MARGIN, STRENGTH, DRAWS = 4_096, 4.0, 1.0, 24
CORRELATIONS = (0.0, 0.5, 0.9)
STEP = 0.05
LAMBDAS = tuple(round(STEP * i, 2) for i in range(25))
SHOWN = (0.0, 0.4, 0.6, 0.8, 0.9, 1.0, 1.2)
LENGTHS, LONG_DRAWS = (1_000, 10_000, 100_000), 6


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
    series = []
    for correlation in CORRELATIONS:
        fine = [i / 50 for i in range(61)]
        series += [
            Series(
                f"rho {correlation:g}, derived", "derived", [(x, model(correlation).signal_to_noise(x)) for x in fine]
            ),
            Series(
                f"rho {correlation:g}, measured",
                "measured",
                [(lam, swept(correlation)[lam].signal_to_noise) for lam in LAMBDAS[::2]],
            ),
        ]
    return Chart(title="Signal-to-noise over lambda", x="lambda", y="signal-to-noise", series=tuple(series))


def row_sum_and_negative_mass() -> Step:
    rho = 0.9
    found, m = swept(rho), model(rho)
    rows: list[tuple[Cell, ...]] = [
        (
            lam,
            found[lam].row_sum,
            1 - lam,
            found[lam].negative,
            m.negative_mass(lam),
            found[lam].noise_mass,
            m.noise_mass(lam),
        )
        for lam in SHOWN
    ]
    mass = [(x / 50, m.noise_mass(x / 50)) for x in range(61)]
    negative = [(x / 50, m.negative_mass(x / 50)) for x in range(61)]
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
                Column("row sum", "measured", ".3f"),
                Column("row sum", "derived", ".3f"),
                Column("negative mass", "measured", ".3f"),
                Column("negative mass", "derived", ".3f"),
                Column("noise mass", "measured", ".3f"),
                Column("noise mass", "derived", ".3f"),
            ),
            rows,
        ),
        charts=(
            Chart(
                title="Noise mass and negative mass over lambda, rho 0.9",
                x="lambda",
                y="mass",
                series=(
                    Series("noise mass, derived", "derived", mass),
                    Series("noise mass, measured", "measured", [(x, found[x].noise_mass) for x in LAMBDAS[::2]]),
                    Series("negative mass, derived", "derived", negative),
                    Series("negative mass, measured", "measured", [(x, found[x].negative) for x in LAMBDAS[::2]]),
                ),
            ),
        ),
        shows="At lambda 1 the row sums to 0, half of its mass is negative, and the noise mass is smallest just below "
        "it.",
    )


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
            "distances d1 and d2 that the noise model states.",
        ),
        formula="erf(d2 / sqrt 2) = delta erf(d1 / sqrt 2);   no match in map 2: lam* = (Z2/Z1) e^(-sigma^2/2),\n"
        "sigma^2 = 2 s^2 (1 - rho)",
        table=Table(
            (
                Column("rho", form="g"),
                Column("best lambda", "measured", ".2f"),
                Column("best lambda", "derived", ".3f"),
                Column("S/N there", "measured", ".1f"),
                Column("S/N there", "derived", ".1f"),
            ),
            rows,
        ),
        shows="The less the maps share, the smaller the best lambda: a model should learn it, by token and head.",
    )


def over_the_length() -> Step:
    lam, pairs = 0.9, _cut()
    rows: list[tuple[Cell, ...]] = []
    points = []
    for n in LENGTHS:
        found = measure(_long(n), pairs[n], lam).signal_to_noise
        points.append((float(n), found))
        rows.append((n, len(pairs[n]), found, _long(n).signal_to_noise(lam), _long(n).best_lambda()))
    fine = [10 ** (2.5 + i / 20) for i in range(60)]
    softmax = _long(LENGTHS[0]).signal_to_noise()
    return Step(
        heading="A fixed lambda over the length",
        text=(
            "Now m = 8, s = 1, rho = 0.9 and a fixed lambda of 0.9. At short lengths the match holds much of the first "
            "map, so that its noise is small, and a fixed lambda takes away more than there is.",
        ),
        table=Table(
            (
                Column("N", form=","),
                Column("contexts drawn", form=","),
                Column("S/N at 0.9", "measured", ",.1f"),
                Column("S/N at 0.9", "derived", ",.1f"),
                Column("best lambda", "derived", ".3f"),
            ),
            rows,
        ),
        charts=(
            Chart(
                title="A fixed lambda of 0.9 over the length",
                x="keys that the query sees (N)",
                y="signal-to-noise",
                x_log=True,
                y_log=True,
                x_ticks=(1_000, 4_000, 16_000, 64_000, 256_000),
                series=(
                    Series("lambda 0.9, derived", "derived", [(n, _long(round(n)).signal_to_noise(lam)) for n in fine]),
                    Series("lambda 0.9, measured", "measured", list(points)),
                    Series("softmax", "derived", [(n, softmax) for n in fine]),
                ),
            ),
        ),
        shows=f"Against softmax's {softmax:,.0f} the fixed lambda loses at {LENGTHS[0]:,} keys, wins from a few "
        f"thousand on, and gains nothing more past some ten thousand.",
    )


def _long(length: int) -> NoiseModel:
    return NoiseModel(length=length, margin=8.0, strength=1.0, correlation=0.9)


@cache
def _cut() -> dict[int, list[Pair]]:
    """A few long contexts, cut into shorter ones for the shorter lengths."""
    whole = draw(_long(max(LENGTHS)), LONG_DRAWS, seed=61)
    return {n: [piece for pair in whole for piece in _pieces(pair, n - 1)] for n in LENGTHS}


def _pieces(pair: Pair, size: int) -> list[Pair]:
    first, second = pair
    starts = range(0, len(first) - size + 1, size)
    return [(first[start : start + size], second[start : start + size]) for start in starts]


def exercises() -> tuple[Exercise, ...]:
    short = NoiseModel(length=512, margin=8.0, strength=1.0, correlation=0.9)
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
            "With m = 8, s = 1, rho = 0.9, what does lambda 0.9 do at 512 keys, and what would the best lambda be?",
            f"It gives {short.signal_to_noise(0.9):,.0f}, against softmax's {short.signal_to_noise():,.0f}: it "
            f"over-subtracts. The best is {short.best_lambda():.2f}, which gives "
            f"{short.signal_to_noise(short.best_lambda()):,.0f}.",
        ),
    )


PART = Part(
    number=6,
    title="The lambda sweep",
    minutes=6,
    aim="Say what lambda trades, and find its best value by measurement and by formula.",
    steps=(the_sweep, row_sum_and_negative_mass, the_best_lambda, over_the_length),
    exercises=exercises,
)
