"""Part 10: a needle in a haystack, and hallucination."""

from __future__ import annotations

import math
from statistics import NormalDist

from diffattn.lesson.pages.part import Cell, Chart, Column, Exercise, Part, Series, Step, Table, both, pair
from diffattn.lesson.parts.found_needles import small_models_find, small_models_invent
from diffattn.lesson.parts.hallucination import absent_keys, near_duplicates, wrong_chance
from diffattn.lesson.parts.haystack import LENGTHS, MAPS, MARGIN, STRENGTH, asked, hit_chance, hits, model
from diffattn.planning.noise_model import NoiseModel

__all__ = ["PART"]

FINE = tuple(round(256 * 2 ** (i / 2)) for i in range(9))
CORRELATIONS = (0.0, 0.5, 0.9, 0.98)
LENGTH, SECOND_MARGINS = 2_048, (2.0, 3.0, 3.5)


def the_retriever() -> Step:
    rows: list[tuple[Cell, ...]] = [
        (n, name, hits(*asked(n, rho)), hit_chance(*asked(n, rho))) for n in LENGTHS for name, rho in MAPS.items()
    ]
    softmax, alone, shared = (hit_chance(*asked(LENGTHS[-1], rho)) for rho in MAPS.values())
    return Step(
        heading="A retriever made by hand",
        text=(
            f"A query looks for one needle of margin m = {MARGIN:g} among N-1 keys of hay whose scores have s = "
            f"{STRENGTH:g}. It cites the key with the largest weight. The differential one has the very same first map "
            "and a second one, which knows nothing of the needle and whose noise correlates with the first's by rho; "
            "lambda is the best for signal-to-noise.",
            "Softmax finds the needle if no hay scores above it. For the difference one integral takes the place of "
            "Phi: the chance that one key's signed weight stays below the needle's.",
        ),
        formula="softmax: hit = Phi(m/s)^(N-1)\n"
        "differential: hit = P(e^(s x)/Z1 - lam e^(s y)/Z2 < p1 - lam p2)^(N-1)\n"
        "x, y: standard normal, correlated by rho",
        table=Table(
            (Column("N", form=","), Column("maps"), *both("needles found", ".4f")),
            rows,
        ),
        charts=(_chart(),),
        shows=f"At {LENGTHS[-1]:,} keys softmax finds the needle with a chance of {softmax:.2f}, the difference of "
        f"maps that share their noise with {shared:.2f}, of maps that do not with {alone:.2f}: no gain to "
        "speak of.",
    )


def _chart() -> Chart:
    series: list[Series] = []
    for name, rho in MAPS.items():
        curve = [(n, hit_chance(*asked(n, rho))) for n in FINE]
        series += pair(name, curve, [(n, hits(*asked(n, rho))) for n in LENGTHS])
    return Chart(
        title="Needles found over the length",
        x="keys that the query sees (N)",
        y="share of needles found",
        x_log=True,
        x_ticks=LENGTHS,
        series=tuple(series),
    )


def what_carries_the_gain() -> Step:
    cases = [("softmax", model(LENGTH, 0.9), 0.0)]
    cases += [(f"rho {rho:g}", model(LENGTH, rho), asked(LENGTH, rho)[1]) for rho in CORRELATIONS]
    lam = asked(LENGTH, 0.9)[1]
    cases += [(f"rho 0.9, needle's m2 = {m2:g}", model(LENGTH, 0.9, m2), lam) for m2 in SECOND_MARGINS]
    return Step(
        heading="What carries the gain",
        text=(
            f"N = {LENGTH:,}. The rows change the correlation, and then the needle's margin m2 in the second map, with "
            "the lambda that was best without it: a second map that has learned the needle too.",
            "No row has sharper scores: they change no order, so not one needle more is found. What won by far in part "
            "5 by signal-to-noise does nothing here. Say which number is meant before saying that something helps.",
        ),
        table=Table(
            (Column("maps"), Column("lambda", "derived", ".3f"), *both("needles found", ".4f")),
            [(name, lam, hits(found, lam), hit_chance(found, lam)) for name, found, lam in cases],
        ),
        shows="The gain is the correlation's, and it turns into a loss where the second map holds the needle as well.",
    )


def exercises() -> tuple[Exercise, ...]:
    phi = NormalDist().cdf
    half = math.log(0.5) / math.log(phi(MARGIN / STRENGTH))
    needed = STRENGTH * NormalDist().inv_cdf(0.9 ** (1 / 65_535))
    mass = NoiseModel(length=65_536, margin=needed, strength=STRENGTH).noise_mass()
    return (
        Exercise(
            f"m = {MARGIN:g}, s = {STRENGTH:g}. At which N does softmax find half of the needles?",
            f"Phi({MARGIN / STRENGTH:g})^(N-1) = 1/2 gives N - 1 = ln(1/2) / ln Phi = {half:,.0f}.",
        ),
        Exercise(
            "Which margin does softmax need to find 90 % of the needles at 65,536 keys, with s = 1?",
            f"Phi(m) = 0.9^(1/65,535), so m = {needed:.2f}. The noise mass is then still {mass:.3f}: to "
            "be the largest takes less than to hold the weight.",
        ),
        Exercise(
            "The right key scores 1 more in the first map than a near-duplicate, and the second map gives both the "
            f"same. Softmax cites the wrong one with a chance of {wrong_chance('softmax'):.3f}. Does subtracting help?",
            "What both maps hold is removed from both keys alike, so only the noise decides. Shared noise cancels: "
            f"{wrong_chance('both alike'):.3f} with rho = 0.9. Noise of its own is added: "
            f"{wrong_chance('both alike, rho 0'):.3f} with rho = 0.",
        ),
    )


PART = Part(
    number=10,
    title="Needle in a haystack, and hallucination",
    minutes=5,
    aim="say when subtracting finds more needles and invents fewer, when not, and what small trained models showed.",
    steps=(the_retriever, what_carries_the_gain, absent_keys, near_duplicates, small_models_find, small_models_invent),
    exercises=exercises,
)
