"""Part 6, continued: a fixed lambda over the length."""

from __future__ import annotations

from functools import cache

from diffattn.lesson.draws import Pair, draw, measure, pieces
from diffattn.lesson.estimates import Estimate
from diffattn.lesson.pages.part import Cell, Chart, Column, Series, Step, Table, both, pair
from diffattn.planning.noise_model import NoiseModel

__all__ = ["cut", "model", "over_the_length"]

LENGTHS, LAMBDA, DRAWS = (1_000, 10_000, 100_000), 0.9, 6
TICKS = (1_000, 4_000, 16_000, 64_000, 256_000)


def over_the_length() -> Step:
    softmax, contexts = model(LENGTHS[0]).signal_to_noise(), cut()
    rows: list[tuple[Cell, ...]] = []
    points = []
    for n in LENGTHS:
        found = measure(model(n), contexts[n], LAMBDA).signal_to_noise
        points.append((n, found))
        rows.append((n, len(contexts[n]), found, model(n).signal_to_noise(LAMBDA), model(n).best_lambda()))
    return Step(
        heading="A fixed lambda over the length",
        text=(
            f"Now m = 8, s = 1, rho = 0.9 and a fixed lambda of {LAMBDA}. At short lengths the match holds much of the "
            "first map, so that its noise is small, and a fixed lambda takes away more than there is.",
        ),
        table=Table(
            (
                Column("N", form=","),
                Column("contexts drawn", form=","),
                *both("S/N at 0.9", ",.1f"),
                Column("best lambda", "derived", ".3f"),
            ),
            rows,
        ),
        charts=(_chart(points),),
        shows=f"Against softmax's {softmax:,.0f} the fixed lambda loses at {LENGTHS[0]:,} keys, wins from a few "
        f"thousand on, and gains nothing more past some ten thousand.",
    )


def model(length: int) -> NoiseModel:
    return NoiseModel(length=length, margin=8.0, strength=1.0, correlation=0.9)


@cache
def cut() -> dict[int, list[Pair]]:
    """A few long contexts, cut into shorter ones for the shorter lengths."""
    whole = draw(model(max(LENGTHS)), DRAWS, seed=61)
    return {n: [piece for pair in whole for piece in pieces(pair, n - 1)] for n in LENGTHS}


def _chart(points: list[tuple[int, Estimate]]) -> Chart:
    fine = [round(500 * 2 ** (i / 5)) for i in range(46)]
    softmax = Series("softmax", "derived", [(n, model(n).signal_to_noise()) for n in fine])
    curve = [(n, model(n).signal_to_noise(LAMBDA)) for n in fine]
    return Chart(
        title=f"A fixed lambda of {LAMBDA} over the length",
        x="keys that the query sees (N)",
        y="signal-to-noise",
        x_log=True,
        y_log=True,
        x_ticks=TICKS,
        series=(*pair(f"lambda {LAMBDA}", curve, points), softmax),
    )
