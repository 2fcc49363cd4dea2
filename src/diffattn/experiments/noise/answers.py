"""What the noise laboratory found, in words made from its numbers."""

from __future__ import annotations

import math
from typing import Any

from diffattn.experiments.noise.answers_controls import cheaper, trust
from diffattn.planning.noise_model import limit_gain, losing_strength, margin_for_noise_mass
from diffattn.report.noise_rows import between, closed, find, measure, rows_of, share_between, value
from diffattn.report.wording import as_given, count, number, percent, quantity

__all__ = ["answers"]

Results = dict[str, Any]


def answers(results: Results) -> list[dict[str, Any]]:
    """Each question with the sentences that answer it: `[{"question": ..., "answer": [...]}]`."""
    found = {
        "How high is the floor?": _floor(results),
        "What does the subtraction remove?": _removed(results),
        "When does it hurt?": _hurts(results),
        "What does a cheaper control bring?": cheaper(results),
        "How far can the closed form be trusted?": trust(results),
    }
    return [{"question": question, "answer": sentences} for question, sentences in found.items()]


def _floor(results: Results) -> list[str]:
    options = results["options"]
    length, margin, strength = options["length"], options["margin"], options["strength"]
    row = find(results, "length", "softmax", length)
    assert row is not None
    expected = closed(row, "noise_mass")
    said = f"; the closed form says {percent(expected, 4)}" if expected is not None else ""
    return [
        f"At {count(length)} keys, with the match {as_given(margin)} above noise of strength {as_given(strength)}, "
        f"softmax leaves {share_between(row, 'noise_mass')} of its weight to the noise{said}.",
        f"A floor of 10% would take a margin of {number(margin_for_noise_mass(length, strength))}.",
        f"The chance that no other key scores above the match is {percent(row['largest_chance'], 4)}.",
        *_over_length(results),
    ]


def _over_length(results: Results) -> list[str]:
    rows = rows_of(results, "length", "softmax")
    if len(rows) < 2:
        return []
    first, last = rows[0], rows[-1]
    ends = f"{count(first['x'])} to {count(last['x'])} keys"
    said = "it does not change with length" if _flat(first, last) else "not flat, where the closed form does not hold"
    noise, output = (
        f"from {show(first, name)} to {show(last, name)}"
        for show, name in ((share_between, "noise_mass"), (between, "output_signal_to_noise"))
    )
    return [
        f"From {ends}, signal-to-noise per position goes from {between(first, 'signal_to_noise')} to "
        f"{between(last, 'signal_to_noise')}: {said}. What changes is the noise's weight in all, {noise}, and with it "
        f"the output's signal-to-noise, {output}."
    ]


def _flat(first: dict[str, Any], last: dict[str, Any]) -> bool:
    """Whether the two are within a twentieth of each other, or their intervals meet."""
    ends = [measure(row, "signal_to_noise") for row in (first, last)]
    low, high = sorted(ends, key=lambda found: found["value"])
    return high["value"] < 1.05 * low["value"] or (low["high"] or 0.0) > (high["low"] or 0.0)


def _removed(results: Results) -> list[str]:
    options = results["options"]
    given, best = (find(results, "length", method, options["length"]) for method in ("given", "best"))
    assert given is not None
    assert best is not None
    rho, fixed, chosen = (as_given(number) for number in (options["correlation"], options["lambda"], best["lambda"]))
    return [
        f"At a correlation of {rho}, signal-to-noise per position over softmax's is {_gain(given)} with lambda {fixed} "
        f"and {_gain(best)} with the best lambda, {chosen}.",
        _limit(options),
        *_what_stays(results),
        f"Signal-to-noise of the output over softmax's is {_gain(given, 'output_gain')} with lambda {fixed} and "
        f"{_gain(best, 'output_gain')} with {chosen}. A gain of G carries the same output noise to about G squared "
        f"times the length, once most of the weight is noise: {_squared(given)} and {_squared(best)} times.",
    ]


def _gain(row: dict[str, Any] | None, name: str = "gain") -> str:
    if value(row, name) is not None:
        return between(row, name)
    match = value(row, "match_weight")
    return "infinite (no noise is left)" if match and abs(match) > 1e-12 else "none (neither match nor noise is left)"


def _limit(options: dict[str, Any]) -> str:
    if options["second_margin"] >= options["margin"]:
        return (
            "The second map holds the match as well as the first: only a lambda that turns the match upside down, with "
            "a weight below zero, can gain. That is the second map with its sign turned; let the maps change places."
        )
    limit = limit_gain(options["strength"], options["correlation"])
    if limit == math.inf:
        return "Noise that both maps hold alike can be removed in full, so that the gain has no limit."
    return (
        f"However long the context, no lambda that keeps the match upright gives more than 1/erf(s sqrt(1 - rho)) = "
        f"{quantity(limit)} times, and less where the second map holds some of the match."
    )


def _squared(row: dict[str, Any]) -> str:
    gain = value(row, "output_gain")
    return "any number of" if gain is None else quantity(gain * gain, 3)


def _what_stays(results: Results) -> list[str]:
    rows = rows_of(results, "correlation", "best")
    least, most = rows[0], rows[-1]
    return [
        "What the two maps' noise has in common goes, and what is each map's own stays: the best lambda's gain is "
        f"{_gain(least)} at a correlation of {as_given(least['x'])} and {_gain(most)} at {as_given(most['x'])}."
    ]


def _hurts(results: Results) -> list[str]:
    return [*_threshold(results), *_short_lengths(results), *_second_map(results), *_negative(results)]


def _threshold(results: Results) -> list[str]:
    options = results["options"]
    lam, shared = options["lambda"], options["strength"] * (1 - options["correlation"]) ** 0.5
    if not 0 < lam <= 1:
        return []
    edge = losing_strength(lam)
    outcome = "below that" if shared < edge else "above that, so that it loses"
    return [
        f"At great length, with nothing of the match in the second map, lambda {as_given(lam)} loses against softmax "
        f"where s sqrt(1 - rho), the noise that the maps do not share, is above {number(edge)}; here it is "
        f"{number(shared)}, {outcome}."
    ]


def _short_lengths(results: Results) -> list[str]:
    rows = rows_of(results, "length", "given")
    if len(rows) < 2 or not results["options"]["lambda"]:
        return []
    first, last = (_beside_the_best(results, row) for row in (rows[0], rows[-1]))
    return [f"A fixed lambda takes away too much at short lengths, where there is less noise to take: {first}; {last}."]


def _beside_the_best(results: Results, row: dict[str, Any]) -> str:
    best = find(results, "length", "best", row["x"])
    assert best is not None
    return (
        f"at {count(row['x'])} keys its gain is {_gain(row)}, where that of the best, {as_given(best['lambda'])}, is "
        f"{_gain(best)}"
    )


def _second_map(results: Results) -> list[str]:
    margin = results["options"]["margin"]
    same = find(results, "second_margin", "given", margin)
    useless = [row["x"] for row in rows_of(results, "second_margin", "best") if row["lambda"] == 0]
    found = [
        "A second map that holds the match too takes the match away as well: with the same margin in both maps the "
        f"gain of lambda {as_given(results['options']['lambda'])} is {_gain(same)}."
    ]
    if useless:
        found.append(
            f"From a margin of {as_given(useless[0])} there, the best lambda is 0: any subtraction that keeps the "
            "match upright loses."
        )
    return found


def _negative(results: Results) -> list[str]:
    row = find(results, "length", "given", results["options"]["length"])
    return [
        f"Lambda {as_given(results['options']['lambda'])} leaves a row sum of {between(row, 'row_sum')} and puts "
        f"weights of {between(row, 'negative_mass')} in all below zero."
    ]
