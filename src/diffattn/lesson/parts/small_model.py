"""Part 11: a small language model, from each seed's number to what may be said."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from diffattn.lesson.by_hand import Paired, holm
from diffattn.lesson.outcomes import outcomes
from diffattn.lesson.pages.part import Cell, Column, Exercise, Part, Step, Table
from diffattn.lesson.trained import name_of, origin, over_seeds, study, whole
from diffattn.planning.sample_size import difference_shown, pairs_needed

__all__ = ["PART", "compared", "shown_pair"]

PUBLISHED = 0.02  # nats a token: the lower of the gains that V2's authors report
SPREADS = (0.005, 0.01, 0.02)

Entry = Mapping[str, Any]


def what_seeds_gave() -> Step:
    found = study("language")
    return Step(
        heading="What the seeds gave",
        text=(
            f"Trained on {found['tokens']:,} tokens of {found['corpus']}, {found['context']} a sequence, and measured "
            "on its test text. V1 is as large as softmax; V2 and gated attention have more parameters, and "
            f"'{name_of('wide', found)}' is softmax with V2's number. Perplexity is a word's, bits are a byte's; "
            "lower is better, and +- is the 95 % t interval over seeds.",
            origin(found),
        ),
        formula="perplexity a word = e^(nats / words),    bits a byte = nats / (ln 2 bytes)",
        table=Table(
            (
                Column("attention"),
                Column("parameters", form=","),
                Column("perplexity", "measured", ",.2f"),
                Column("bits a byte", "measured", ".4f"),
                Column("each seed's bits"),
            ),
            [_variant_row(name) for name in found["variants"]],
        ),
        shows="These intervals tell where each attention lies; whether two differ, the next step asks, seed by seed.",
    )


def _variant_row(name: str) -> tuple[Cell, ...]:
    found = study("language")
    runs = [run for run in found["runs"] if run["variant"] == name]
    bits = [run["bits_per_byte"] for run in runs]
    words = ", ".join("diverged" if value is None else f"{value:.3f}" for value in bits)
    perplexity = over_seeds([run["perplexity_word"] for run in runs])
    return name_of(name, found), runs[0]["parameters"], perplexity, over_seeds(bits), words


@cache
def compared() -> list[tuple[Entry, Paired]]:
    """The hypotheses of the study that have two whole pairs or more."""
    entries = study("language")["comparisons"]
    sides = [(entry, whole(entry["values"]), whole(entry["baseline_values"])) for entry in entries]
    return [(entry, Paired(ours, theirs)) for entry, ours, theirs in sides if ours and theirs and len(ours) > 1]


def shown_pair() -> tuple[Entry, Paired] | None:
    """The pair that is worked through: V2 at equal parameters, or the first there is."""
    wanted = [(entry, pair) for entry, pair in compared() if entry["hypothesis"] == "v2 at equal parameters"]
    return next(iter([*wanted, *compared()]), None)


def a_paired_difference() -> Step:
    shown = shown_pair()
    if shown is None:
        return _nothing("A paired difference by hand")
    (entry, pair), found = shown, study("language")
    low, high = pair.interval
    names = name_of(entry["variant"], found), name_of(entry["baseline"], found)
    rows: list[tuple[Cell, ...]] = [
        ("mean difference", pair.mean, entry["difference_mean"]),
        ("standard deviation of the differences", pair.deviation, None),
        (f"t quantile for {pair.seeds - 1} degrees of freedom", pair.critical, None),
        ("interval, low", low, entry["interval_low"]),
        ("interval, high", high, entry["interval_high"]),
        ("t = mean / standard error", pair.t, None),
        ("p", pair.p, entry["p"]),
        ("half the interval", pair.critical * pair.error, None),
        ("half of it if seeds were not paired", pair.unpaired_half, None),
    ]
    narrower = pair.critical * pair.error < pair.unpaired_half
    return Step(
        heading="A paired difference by hand",
        text=(
            "Two runs of one seed see the same text in the same order, so what the seed does to both cancels in their "
            "difference. So: one difference a seed, their mean, and the t interval that a few numbers deserve.",
            f"{names[0]} minus {names[1]} at {entry['at']}, {entry['unit']}, {entry['measure']}: "
            f"{', '.join(f'{value:+.4f}' for value in pair.differences)}.",
        ),
        formula="mean +- t(n-1) * deviation / sqrt(n)",
        table=Table(
            (Column("quantity"), Column("by hand", "derived", ".4f"), Column("as the study wrote it", form=".4f")), rows
        ),
        shows=f"The interval is {low:+.4f} to {high:+.4f}, so the difference "
        f"{'is not 0' if low > 0 or high < 0 else 'may be 0'} for this pair alone; pairing made it "
        f"{'narrower' if narrower else 'no narrower'}.",
    )


def many_questions() -> Step:
    pairs, found = compared(), study("language")
    if not pairs:
        return _nothing("Many questions, and Holm's correction")
    plain = [pair.p for _, pair in pairs]
    corrected = holm(plain)
    rows = [
        (_label(entry), pair.mean, p, after, entry["p_holm"], entry["outcome"])
        for (entry, pair), p, after in zip(pairs, plain, corrected, strict=True)
    ]
    lost = sum(p < 0.05 <= after for p, after in zip(plain, corrected, strict=True))
    return Step(
        heading="Many questions, and Holm's correction",
        text=(
            f"The study asks {len(pairs)} questions, fixed before it ran: each variant at equal tokens, parameters, "
            "training FLOPs and wall time. Of twenty questions without an effect one comes out below 0.05. Holm: "
            "multiply the smallest p by their number, the next by one less, and so on; none may fall below the one "
            "before.",
        ),
        table=Table(
            (
                Column("question"),
                Column("mean difference", "derived", "+.4f"),
                Column("p", "derived", ".4f"),
                Column("by Holm", "derived", ".4f"),
                Column("as the study wrote it", form=".4f"),
                Column("outcome"),
            ),
            rows,
        ),
        shows=f"{outcomes(found, [entry for entry, _ in pairs], lambda entry: str(entry['at']))[:-1]}; the correction "
        f"took back {lost} of {sum(p < 0.05 for p in plain)} findings.",
    )


def _label(entry: Entry) -> str:
    found = study("language")
    return f"{name_of(entry['variant'], found)} minus {name_of(entry['baseline'], found)}, {entry['at']}"


def what_could_be_seen() -> Step:
    shown = shown_pair()
    if shown is None:
        return _nothing("The smallest difference that could be seen")
    entry, pair = shown
    return Step(
        heading="The smallest difference that could be seen",
        text=(
            "'Not resolved' is half a statement: below which size? With the spread of the differences that was "
            f"found ({pair.deviation:.4f} {entry['unit']}), so many seeds would show a true difference of the size in "
            "the table four times in five.",
        ),
        table=Table(
            (Column("seeds", form="d"), Column("difference shown", "derived", ".4f")),
            [(seeds, difference_shown(seeds, pair.deviation)) for seeds in (2, 3, 5, 10, 20)],
        ),
        corrections=("'No difference was found, so there is none.' A study says only what it could have seen.",),
        shows=f"With its {pair.seeds} seeds this study would miss a difference under {pair.detectable:.3g} "
        f"{entry['unit']} more than one time in five.",
    )


def _nothing(heading: str) -> Step:
    return Step(
        heading=heading,
        text=("The stored study holds no pair of whole runs with two seeds or more.",),
        table=Table((Column("pairs", form="d"),), [(0,)]),
        shows="One seed has no spread, so nothing follows from it.",
    )


def exercises() -> tuple[Exercise, ...]:
    needed = ", ".join(f"{pairs_needed(PUBLISHED, spread)} at {spread:g}" for spread in SPREADS)
    example = Paired((1.60, 1.62, 1.59), (1.62, 1.63, 1.62))
    low, high = example.interval
    return (
        Exercise(
            f"V2's authors report {PUBLISHED} nats a token. How many paired seeds show that four times in five, if the "
            f"differences scatter by {', '.join(f'{spread:g}' for spread in SPREADS)}?",
            f"{needed}. diffattn plan CONFIG --difference {PUBLISHED} computes it.",
        ),
        Exercise(
            "Three seeds: a variant has 1.60, 1.62 and 1.59 bits a byte, its baseline 1.62, 1.63 and 1.62. Better?",
            f"The differences are {', '.join(f'{x:+.2f}' for x in example.differences)}, mean {example.mean:+.3f}, "
            f"deviation {example.deviation:.3f}, t quantile {example.critical:.3f}: {low:+.3f} to {high:+.3f}. "
            f"{'Yes.' if high < 0 else 'All three seeds say so, and it is still not resolved.'}",
        ),
        Exercise(
            "Two p values, 0.03 and 0.04, for two questions. What is left after Holm's correction?",
            f"{' and '.join(f'{p:g}' for p in holm([0.03, 0.04]))}: neither is below 0.05.",
        ),
    )


PART = Part(
    number=11,
    title="A small language model",
    minutes=4,
    aim="go from each seed's loss to a paired difference, its interval, its correction, and what it cannot show.",
    steps=(what_seeds_gave, a_paired_difference, many_questions, what_could_be_seen),
    exercises=exercises,
)
