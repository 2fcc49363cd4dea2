"""What the laboratory found in a trained model, in words made from its numbers."""

from __future__ import annotations

from statistics import median
from typing import Any

from diffattn.report.wording import as_given, count, join_words, number, percent

__all__ = ["answers_trained"]

Results = dict[str, Any]
#: From here on a difference in signal-to-noise is worth a word.
_NOTICEABLE = 1.1


def answers_trained(results: Results) -> list[dict[str, Any]]:
    """Each question with the sentences that answer it: `[{"question": ..., "answer": [...]}]`."""
    differential = any("gain" in row for row in results["heads"])
    found = {"Does this model have the problem?": _problem(results)}
    if differential:
        found["What does the subtraction remove?"] = _removed(results)
        found["When does it hurt?"] = _hurts(results)
    else:
        found["What could a second map bring?"] = _possible(results)
    found["How far can this be trusted?"] = _trust(results)
    return [{"question": question, "answer": sentences} for question, sentences in found.items()]


def _problem(results: Results) -> list[str]:
    finding = [entry for entry in results["lengths"] if entry["finding"]]
    if not finding:
        return _nobody(results)
    longest = max(finding, key=lambda entry: entry["length"])
    return [
        _floor(longest),
        *_lost(results, longest),
        *_over_length(results),
        _heads_found(results),
        f"For diffattn plan: --margin {longest['margin']:.2f} --strength {longest['effective_strength']:.2f}",
    ]


def _nobody(results: Results) -> list[str]:
    most = max(results["lengths"], key=lambda entry: entry["copied"])
    best = max(results["heads"], key=lambda row: row["answer_mass"])
    return [
        "No head finds the answer in half of the probes at any length, so they cannot tell: they ask for copying, and "
        f"the model copied in at most {percent(most['copied'], 2)} of them (at {count(most['length'])} tokens). Try "
        "text like that which it was trained on (--data), shorter --lengths or a longer --span.",
        f"The most weight on the answer is {percent(best['answer_mass'], 3)}, in layer {best['layer'] + 1} head "
        f"{best['head'] + 1} at {count(best['length'])} tokens: a margin of {number(best['margin'], 3)}, where "
        f"{number(best['margin_needed'], 3)} would leave 10% to noise.",
    ]


def _floor(entry: dict[str, Any]) -> str:
    short = entry["margin_needed"] - entry["margin"]
    verdict = (
        f"yes: the margin is {number(short, 3)} short of what leaves 10% to noise"
        if short > 0
        else f"hardly: the margin is {number(-short, 3)} above what leaves 10% to noise"
    )
    heads = f"{entry['finding']} of {entry['heads']} heads find the answer"
    return (
        f"At {count(entry['length'])} tokens {verdict} ({number(entry['margin'], 3)}, needed "
        f"{number(entry['margin_needed'], 3)}). {heads}; in the middle they give it {percent(entry['answer_mass'], 3)} "
        f"of their weight and {percent(entry['rest_mass'], 3)} to the rest."
    )


def _lost(results: Results, longest: dict[str, Any]) -> list[str]:
    """Whether longer probes find nobody."""
    beyond = [entry["length"] for entry in results["lengths"] if entry["length"] > longest["length"]]
    if not beyond:
        return []
    return [f"At {join_words([count(length) for length in sorted(beyond)])} tokens no head finds it any more."]


def _over_length(results: Results) -> list[str]:
    rows = results["followed"]
    if len(rows) < 2:
        return []
    first, last = rows[0], rows[-1]
    changes = [
        f"{words} from {percent(first[name], 3)} to {percent(last[name], 3)}"
        for name, words in (("answer_mass", "the weight of the answer"), ("rest_mass", "that of the rest"))
    ]
    return [
        f"In the heads that find it at {count(first['length'])} tokens, {join_words(changes)} at "
        f"{count(last['length'])}; the margin from {number(first['margin'], 3)} to {number(last['margin'], 3)}, where "
        f"{number(last['margin_needed'], 3)} is needed."
    ]


def _heads_found(results: Results) -> str:
    length = max(row["length"] for row in results["heads"] if row["finds_answer"])
    rows = [row for row in results["heads"] if row["length"] == length and row["finds_answer"]]
    best = sorted(rows, key=lambda row: -row["answer_mass"])[:5]
    named = join_words([f"layer {row['layer'] + 1} head {row['head'] + 1}" for row in best])
    return f"The heads with most weight on the answer at {count(length)} tokens: {named}."


def _possible(results: Results) -> list[str]:
    rows = [row for row in results["heads"] if row["finds_answer"]]
    if not rows:
        return ["No head finds the answer, so no gain can be named."]
    length = max(row["length"] for row in rows)
    gains = _median_gains([row for row in rows if row["length"] == length])
    said = join_words([f"{number(gain, 3)} at correlation {as_given(rho)}" for rho, gain in gains.items()])
    most = max(gains.values())
    advice = (
        "That is little: their noise spreads downwards, or hardly at all, and takes nothing that could be given back."
        if most < _NOTICEABLE
        else "Which correlation training would find is not known beforehand; sharper scores may bring as much."
    )
    return [
        f"At {count(length)} tokens at most, in the middle of the heads that find the answer, these times their "
        f"signal-to-noise: {said}. That takes a second map as noisy as the first, with nothing of the answer, and the "
        "best lambda.",
        advice,
    ]


def _median_gains(rows: list[dict[str, Any]]) -> dict[float, float]:
    correlations = [gain["correlation"] for gain in rows[0]["possible_gains"]]
    return {rho: median(row["possible_gains"][index]["gain"] for row in rows) for index, rho in enumerate(correlations)}


def _removed(results: Results) -> list[str]:
    finding = [entry for entry in results["lengths"] if entry["finding"]]
    if not finding:
        length = max(row["length"] for row in results["heads"])
        middle = median(row["correlation"] for row in results["heads"] if row["length"] == length)
        return [
            f"At {count(length)} tokens the correlation of the two maps' noise has a median of {number(middle, 2)} "
            "over all heads."
        ]
    entry = max(finding, key=lambda entry: entry["length"])
    rows = [row for row in results["heads"] if row["length"] == entry["length"] and row["finds_answer"]]
    before, after = (median(row[name] for row in rows) for name in ("first_rest_mass", "rest_mass"))
    return [
        f"At {count(entry['length'])} tokens, in the middle of the heads that find the answer, the two maps' noise "
        f"correlates by {number(entry['correlation'], 2)} and lambda is {number(entry['lambda'], 2)}. The weight of "
        f"the rest goes from {percent(before, 3)} in the first map to {percent(after, 3)} in absolute value after the "
        f"subtraction; signal-to-noise is {number(entry['gain'], 3)} times the first map's."
    ]


def _hurts(results: Results) -> list[str]:
    length = max(row["length"] for row in results["heads"])
    rows = [row for row in results["heads"] if row["length"] == length]
    worse = [row for row in rows if row["gain"] < 1]
    told = [f"At {count(length)} tokens it lowers the signal-to-noise of {len(worse)} of {len(rows)} heads."]
    known = [row for row in worse if row["finds_answer"] and row["second_margin"] > row["margin"] / 2]
    if known:
        told.append(
            f"In {len(known)} of those that find the answer the second map holds it too (a margin above half of the "
            "first's), so that it is taken away with the noise."
        )
    return told


def _trust(results: Results) -> list[str]:
    rows = results["heads"]
    holds = sum(row["closed_form_holds"] for row in rows)
    told = [
        f"The closed form, which takes noise for Gaussian, may be trusted in {holds} of {len(rows)} heads and lengths. "
        "Margins, masses and signal-to-noise are measured; possible gains are fitted to them by the strength of "
        "Gaussian noise that would take as much weight (the effective strength)."
    ]
    spread = [row["strength"] / row["effective_strength"] for row in rows if row["effective_strength"] > 1e-3]
    if spread and median(spread) > _NOTICEABLE:
        told.append(
            f"The scores' standard deviation is {number(median(spread), 3)} times the effective strength in the "
            "middle: most of their spread is downwards, where softmax does not see it."
        )
    told.append("Probes ask for copying after a repeated stretch, one kind of retrieval among many.")
    return told
