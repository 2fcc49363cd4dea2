"""Part 1: the noise floor of softmax, and what really changes with the length."""

from __future__ import annotations

import math
import random
from functools import cache

from diffattn.lesson.attention import dot
from diffattn.lesson.estimates import Estimate, estimate, mean, ratio
from diffattn.lesson.part import Chart, Column, Exercise, Part, Series, Step, Table
from diffattn.planning.noise_model import NoiseModel, margin_for_noise_mass

__all__ = ["LENGTHS", "MARGIN", "PART", "STRENGTH", "model"]

LENGTHS = (1_000, 4_000, 16_000, 64_000, 256_000)
MARGIN, STRENGTH, SMALL_MARGIN = 8.0, 1.0, 4.0
ROWS = 8

Block = tuple[float, float, float]  # of e^score over the other keys of one context: sum, sum of squares, largest


def model(length: int, margin: float = MARGIN) -> NoiseModel:
    return NoiseModel(length=length, margin=margin, strength=STRENGTH)


@cache
def contexts() -> dict[int, list[Block]]:
    """A few long rows of noise scores, cut into contexts of each length: the short ones are then many."""
    normal = random.Random(1).gauss
    found: dict[int, list[Block]] = {length: [] for length in LENGTHS}
    for _ in range(ROWS):
        powers = [math.exp(normal(0, STRENGTH)) for _ in range(max(LENGTHS))]
        for length, blocks in found.items():
            others = length - 1
            for start in range(0, len(powers) - others + 1, others):
                block = powers[start : start + others]
                blocks.append((sum(block), dot(block, block), max(block)))
    return found


def match_weight(length: int, margin: float) -> Estimate:
    return mean([math.exp(margin) / (math.exp(margin) + total) for total, _, _ in contexts()[length]])


def noise_mass(length: int, margin: float) -> Estimate:
    return mean([total / (math.exp(margin) + total) for total, _, _ in contexts()[length]])


def signal_to_noise(length: int, margin: float) -> Estimate:
    sums = [(math.exp(margin), total) for total, _, _ in contexts()[length]]
    return ratio([s / (s + z) for s, z in sums], [z / (s + z) / (length - 1) for s, z in sums])


def output_signal_to_noise(length: int, margin: float) -> Estimate:
    signal = math.exp(margin)
    weights = [signal / (signal + total) for total, _, _ in contexts()[length]]
    squares = [squared / (signal + total) ** 2 for total, squared, _ in contexts()[length]]
    return estimate(lambda weight, square: weight / math.sqrt(square), weights, squares)


def largest_share(length: int, margin: float) -> Estimate:
    return mean([float(largest < math.exp(margin)) for _, _, largest in contexts()[length]])


def the_floor() -> Step:
    rows = [
        (n, match_weight(n, MARGIN), model(n).match_weight(), noise_mass(n, MARGIN), model(n).noise_mass())
        for n in LENGTHS
    ]
    grown = Chart(
        title="Noise mass over the length",
        x="keys that the query sees (N)",
        y="noise mass of softmax",
        x_log=True,
        x_ticks=LENGTHS,
        series=(
            Series("margin 8, measured", "measured", [(n, noise_mass(n, MARGIN)) for n in LENGTHS]),
            *(
                Series(f"margin {margin}, derived", "derived", [(n, model(n, margin).noise_mass()) for n in LENGTHS])
                for margin in (6, 8, 10, 12)
            ),
        ),
    )
    return Step(
        heading="A query, one match, and everything else",
        text=(
            "A query sees N keys. One is the match, and its score is m. The other N-1 have scores that scatter around "
            f"0 with a standard deviation of s. Here m = {MARGIN:g} (the margin) and s = {STRENGTH:g} (the noise).",
            "Softmax gives every key a weight above 0. A single noise key gets almost nothing, but there are N-1 of "
            "them. All that they take together is the noise mass: the noise floor of softmax.",
        ),
        formula="weight of the match = e^m / (e^m + (N-1) e^(s^2/2))\n"
        "noise mass          = (N-1) e^(s^2/2) / (e^m + (N-1) e^(s^2/2))",
        table=Table(
            (
                Column("N", form=","),
                Column("weight of the match", "measured", ".5f"),
                Column("weight of the match", "derived", ".5f"),
                Column("noise mass", "measured", ".5f"),
                Column("noise mass", "derived", ".5f"),
            ),
            rows,
        ),
        charts=(grown,),
        shows=f"From {LENGTHS[0]:,} to {LENGTHS[-1]:,} keys the same match falls from {rows[0][2]:.2f} to "
        f"{rows[-1][2]:.3f} of the attention, and the noise takes the rest.",
    )


def the_flat_line() -> Step:
    derived = model(LENGTHS[0]).signal_to_noise()
    measured = [(n, signal_to_noise(n, MARGIN)) for n in LENGTHS]
    return Step(
        heading="What does not change: signal-to-noise per position",
        text=(
            "Signal-to-noise is the weight of the match over the mean weight of one other key. Softmax divides both by "
            "the same sum, so the sum, and with it N, drops out.",
            "It is measured as a ratio of two means over many draws, with a 95 % interval.",
        ),
        formula="signal-to-noise = e^m / e^(s^2/2) = e^(m - s^2/2)",
        table=Table(
            (
                Column("N", form=","),
                Column("signal-to-noise", "measured", ",.1f"),
                Column("signal-to-noise", "derived", ",.1f"),
            ),
            [(n, value, model(n).signal_to_noise()) for n, value in measured],
        ),
        charts=(
            Chart(
                title="Signal-to-noise per position over the length",
                x="keys that the query sees (N)",
                y="signal-to-noise",
                x_log=True,
                y_log=True,
                x_ticks=LENGTHS,
                series=(
                    Series("per position, measured", "measured", list(measured)),
                    Series("per position, derived", "derived", [(n, derived) for n in LENGTHS]),
                    Series(
                        "of the output, measured", "measured", [(n, output_signal_to_noise(n, MARGIN)) for n in LENGTHS]
                    ),
                    Series(
                        "of the output, derived",
                        "derived",
                        [(n, model(n).output_signal_to_noise()) for n in LENGTHS],
                    ),
                ),
            ),
        ),
        shows=f"Per position the match stands {derived:,.0f} times above the noise at every length: this line is flat.",
    )


def what_changes() -> Step:
    return Step(
        heading="What does change: the output, and the chance to be the largest",
        text=(
            "The noise keys bring values of their own, and these add up in the output. If the values are uncorrelated, "
            "their sum grows with the square root of N-1: the output's signal-to-noise falls.",
            "The largest of many noise scores grows too. For the margin 8 the match stays the largest at all these "
            f"lengths; for a margin of {SMALL_MARGIN:g} it does not.",
        ),
        formula="output signal-to-noise -> e^(m - s^2) / sqrt(N-1)      chance = Phi(m/s)^(N-1)",
        table=Table(
            (
                Column("N", form=","),
                Column("contexts drawn", form=","),
                Column("output S/N, margin 8", "measured", ",.2f"),
                Column("output S/N, margin 8", "derived", ",.2f"),
                Column("match is largest, margin 4", "measured", ".3f"),
                Column("match is largest, margin 4", "derived", ".3f"),
            ),
            [
                (
                    n,
                    len(contexts()[n]),
                    output_signal_to_noise(n, MARGIN),
                    model(n).output_signal_to_noise(),
                    largest_share(n, SMALL_MARGIN),
                    model(n, SMALL_MARGIN).largest_chance,
                )
                for n in LENGTHS
            ],
        ),
        shows="Length does not weaken the match against one noise key; it weakens it against their sum and against "
        "their maximum.",
    )


def the_margin_needed() -> Step:
    margins = [(n, margin_for_noise_mass(n, STRENGTH)) for n in LENGTHS]
    return Step(
        heading="The margin that a floor of 10 % needs",
        text=(
            "Turn the formula around: how far must the match stand above the noise for the noise mass to be 10 %? The "
            "measured column puts the match at exactly this margin.",
        ),
        formula="m = ln(9 (N-1)) + s^2/2",
        table=Table(
            (
                Column("N", form=","),
                Column("margin needed", "derived", ".2f"),
                Column("noise mass there", "measured", ".5f"),
            ),
            [(n, margin, noise_mass(n, margin)) for n, margin in margins],
        ),
        charts=(
            Chart(
                title="Margin for a noise mass of 10 %",
                x="keys that the query sees (N)",
                y="margin m",
                x_log=True,
                x_ticks=LENGTHS,
                series=(Series("derived", "derived", list(margins)),),
            ),
        ),
        shows=f"Each fourfold of the length costs ln 4 = {math.log(4):.2f} of margin: softmax can hold its floor, if "
        "the scores grow with ln N.",
    )


def your_own_numbers() -> Step:
    width, claim = 64, 127_999 * 0.001 / 100
    query, products = _products(width)
    squared, odds = dot(query, query), 0.08 / 0.92 / (1_000 - 1)
    spread = mean([x * x for x in products])
    scaled = mean([x * x / width for x in products])
    sharp = 5 * squared / math.sqrt(width)
    later = [odds * (n - 1) / (1 + odds * (n - 1)) for n in (10_000, 100_000)]
    return Step(
        heading="Four numbers that are often told wrong",
        text=(
            f"A query q of width {width} meets {len(products):,} keys drawn at random. Its products q.k scatter by its "
            "own length; the score that softmax takes is the product over sqrt(d).",
        ),
        table=Table(
            (Column("quantity"), Column("value", "measured", ".2f"), Column("value", "derived", ".2f")),
            [
                ("variance of q.k: |q|^2", spread, squared),
                ("variance of the score: |q|^2 / d", scaled, squared / width),
                ("score of a key k = 5 q: 5 |q|^2 / sqrt(d)", dot(query, [5 * x for x in query]) / width**0.5, sharp),
            ],
        ),
        corrections=(
            f"'0.001 % on each of 127,999 tokens is 12 %.' It is {100 * claim:.0f} %, more than all there is; "
            f"{10 * claim:.1f} % needs 0.0001 % on each.",
            f"'Set keys[0] = 5 q and watch the noise.' That gives the match a score of {sharp:.0f}, so at "
            f"{LENGTHS[-1]:,} keys the noise mass is {model(LENGTHS[-1], sharp).noise_mass():.0e}: no floor to be "
            "seen. Say the margin first.",
            f"'Noise rises from 8 % at 1K to 30 % at 100K.' The odds of the noise grow with N-1, so 8 % at 1K becomes "
            f"{100 * later[0]:.1f} % at 10K and {100 * later[1]:.1f} % at 100K.",
            "'The variance of q.k is |q|^2 / d.' That is the variance of the scaled score; q.k has |q|^2.",
        ),
        shows="A statement about a noise floor means something only with its margin, its noise and its length.",
    )


def _products(width: int) -> tuple[list[float], list[float]]:
    normal = random.Random(2).gauss
    query = [normal(0, 1) for _ in range(width)]
    return query, [dot(query, [normal(0, 1) for _ in range(width)]) for _ in range(3000)]


def exercises() -> tuple[Exercise, ...]:
    short, long = model(1_000), model(1_000_000)
    odds = 0.2 / 0.8 * 9_999 / 999
    return (
        Exercise(
            "At N = 1,000 the noise mass is 20 %. What is it at N = 10,000, with the same margin and noise?",
            f"The odds were 0.2 / 0.8 = 0.25. They grow by 9,999 / 999, to {odds:.2f}. The mass is "
            f"{100 * odds / (1 + odds):.1f} %.",
        ),
        Exercise(
            "With m = 8 and s = 1, what are signal-to-noise per position and noise mass at a million keys?",
            f"Per position {long.signal_to_noise():,.0f}, as at 1,000 keys ({short.signal_to_noise():,.0f}). The noise "
            f"mass is {long.noise_mass():.4f}, against {short.noise_mass():.4f}.",
        ),
        Exercise(
            "Which margin does a noise mass of 1 % need at 128,000 keys with s = 2?",
            "ln(99 (N-1)) + s^2/2 = "
            f"{margin_for_noise_mass(128_000, 2, 0.01):.2f}, of which s^2/2 = 2 pays for the spread of the noise.",
        ),
    )


PART = Part(
    number=1,
    title="The noise floor",
    minutes=8,
    aim="Say exactly why softmax has a noise floor, and what grows, what falls and what stays as the context grows.",
    steps=(the_floor, the_flat_line, what_changes, the_margin_needed, your_own_numbers),
    exercises=exercises,
)
