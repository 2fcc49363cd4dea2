"""Part 1: the noise floor of softmax, and what really changes with the length."""

from __future__ import annotations

import math

from diffattn.lesson.contexts import (
    LENGTHS,
    STRENGTH,
    largest_share,
    match_weight,
    noise_mass,
    output_signal_to_noise,
    signal_to_noise,
)
from diffattn.lesson.pages.part import Chart, Column, Exercise, Part, Series, Step, Table, both, pair
from diffattn.lesson.parts.told_wrong import your_own_numbers
from diffattn.planning.noise_model import NoiseModel, margin_for_noise_mass

__all__ = ["PART", "model"]

MARGIN, SMALL_MARGIN = 8.0, 4.0
FINE = tuple(round(1_000 * 2 ** (i / 4)) for i in range(33))  # 1,000 to 256,000


def model(length: int, margin: float = MARGIN) -> NoiseModel:
    return NoiseModel(length=length, margin=margin, strength=STRENGTH)


def over_length(title: str, y: str, *series: Series, y_log: bool = False) -> Chart:
    """A chart over the number of keys."""
    x = "keys that the query sees (N)"
    return Chart(title=title, x=x, y=y, x_log=True, y_log=y_log, x_ticks=LENGTHS, series=series)


def the_floor() -> Step:
    rows = [
        (n, match_weight(n, MARGIN), model(n).match_weight(), noise_mass(n, MARGIN), model(n).noise_mass())
        for n in LENGTHS
    ]
    grown = over_length(
        "Noise mass over the length",
        "noise mass of softmax",
        Series("margin 8, measured", "measured", [(n, noise_mass(n, MARGIN)) for n in LENGTHS]),
        *(
            Series(f"margin {margin}, derived", "derived", [(n, model(n, margin).noise_mass()) for n in FINE])
            for margin in (6, 8, 10, 12)
        ),
    )
    return Step(
        heading="A query, one match, and everything else",
        text=(
            "A query sees N keys. One is the match, and its score is m. The other N-1 have scores that scatter around "
            f"0 with a standard deviation of s. Here m = {MARGIN:g} (the margin) and s = {STRENGTH:g} (the noise).",
            "Softmax gives every key a weight above 0. A single noise key gets almost nothing, but there are N-1 of "
            "them. All that they take together is the noise mass: the noise floor of softmax.",
            "A noise key with the score x brings e^x to the sum, and the sum over many is N-1 times its mean. Complete "
            "the square to find that mean.",
        ),
        formula="mean of e^x for x ~ N(0, s^2): the density's exponent -x^2/(2 s^2) becomes\n"
        "x - x^2/(2 s^2) = s^2/2 - (x - s^2)^2/(2 s^2)\n"
        "e^(s^2/2) times a normal density about s^2, whose integral is 1: e^(s^2/2)\n\n"
        "weight of the match = e^m / (e^m + (N-1) e^(s^2/2))\n"
        "noise mass          = (N-1) e^(s^2/2) / (e^m + (N-1) e^(s^2/2))",
        table=Table(
            (
                Column("N", form=","),
                *both("weight of the match", ".5f"),
                *both("noise mass", ".5f"),
            ),
            rows,
        ),
        charts=(grown,),
        shows=f"From {LENGTHS[0]:,} to {LENGTHS[-1]:,} keys the same match falls from {rows[0][2]:.2f} to "
        f"{rows[-1][2]:.3f} of the attention, and the noise takes the rest.",
    )


def the_flat_line() -> Step:
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
                *both("signal-to-noise", ",.1f"),
            ),
            [(n, value, model(n).signal_to_noise()) for n, value in measured],
        ),
        charts=(
            over_length(
                "Signal-to-noise over the length",
                "signal-to-noise",
                *pair("per position", [(n, model(n).signal_to_noise()) for n in FINE], measured),
                *pair(
                    "of the output",
                    [(n, model(n).output_signal_to_noise()) for n in FINE],
                    [(n, output_signal_to_noise(n, MARGIN)) for n in LENGTHS],
                ),
                y_log=True,
            ),
        ),
        shows=f"The match stands {model(LENGTHS[0]).signal_to_noise():,.0f} times above a noise key at every length: "
        "flat.",
    )


def what_changes() -> Step:
    return Step(
        heading="What does change: the output, and the chance to be the largest",
        text=(
            "The noise keys bring values of their own, and these add up in the output. If the values are uncorrelated, "
            "their sum grows with the square root of N-1: the output's signal-to-noise falls.",
            "The largest of many noise scores grows too. For the margin 8 the match stays the largest at all these "
            f"lengths; for a margin of {SMALL_MARGIN:g} it does not. How many contexts came out so stands beside the "
            "chance, with Wilson's 95 % interval.",
        ),
        formula="output signal-to-noise -> e^(m - s^2) / sqrt(N-1)\n"
        "chance to be the largest = Phi(m/s)^(N-1)       Phi: the normal distribution",
        table=Table(
            (
                Column("N", form=","),
                *both("output S/N, margin 8", ",.2f"),
                *both("match is largest, margin 4", ".4f"),
            ),
            [
                (
                    n,
                    output_signal_to_noise(n, MARGIN),
                    model(n).output_signal_to_noise(),
                    largest_share(n, SMALL_MARGIN),
                    model(n, SMALL_MARGIN).largest_chance,
                )
                for n in LENGTHS
            ],
        ),
        charts=(
            over_length(
                "Chance that the match is the largest",
                "chance",
                *pair(
                    "margin 4",
                    [(n, model(n, SMALL_MARGIN).largest_chance) for n in FINE],
                    [(n, largest_share(n, SMALL_MARGIN)) for n in LENGTHS],
                ),
            ),
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
            over_length(
                "Margin for a noise mass of 10 %",
                "margin m",
                Series("derived", "derived", [(n, margin_for_noise_mass(n, STRENGTH)) for n in FINE]),
            ),
        ),
        shows=f"Each fourfold of the length costs ln 4 = {math.log(4):.2f} of margin: softmax can hold its floor, if "
        "the scores grow with ln N.",
    )


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
    minutes=6,
    aim="say exactly why softmax has a noise floor, and what grows, what falls and what stays as the context grows.",
    steps=(the_floor, the_flat_line, what_changes, the_margin_needed, your_own_numbers),
    exercises=exercises,
)
