"""What a comparison showed, in short sentences that claim no more than the numbers do."""

from __future__ import annotations

from typing import Any

from diffattn.experiments.pairs import MEASURES, by_seed, compare_runs, outcome
from diffattn.report.wording import count, decimals_for, finite, join_words, number, signed, variant_name

__all__ = ["MEASURES", "compare_runs", "sentences"]

Results = dict[str, Any]

_VERDICT_MEASURE = next(iter(MEASURES))
_EQUAL_SIZE = 0.005


def sentences(results: Results) -> list[str]:
    """The verdict: the answer first, then its evidence, the unigram bound, parameters, speed and limits.

    A variant is called better or worse only where the 95% interval of the paired difference in test bits a
    byte excludes 0, and never from one seed.
    """
    comparisons = [entry for entry in compare_runs(results) if entry["measure"] == _VERDICT_MEASURE]
    found = [_answer(results, comparisons), *map(_evidence, comparisons), *_caution(comparisons)]
    found += [*_unigram(results), *_parameters(results), *_speed(results), *_limits(results)]
    return [sentence for sentence in found if sentence]


def _answer(results: Results, comparisons: list[dict[str, Any]]) -> str:
    if not comparisons:
        alone = len(results.get("variants") or ()) < 2
        return f"{'Fewer than two variants were' if alone else 'The baseline was not'} trained: nothing to compare."
    if not any(entry["difference_mean"] is not None for entry in comparisons):
        return "This run cannot say which is better: no pair of models gave numbers that can be compared."
    if all(entry["interval_low"] is None for entry in comparisons):
        return (
            "This run cannot say which is better: with one seed, a difference between two models cannot be "
            "told from chance."
        )
    baseline = variant_name(comparisons[0]["baseline"])
    said = []
    for group, words in (("better", "better than"), ("worse", "worse than"), ("open", "not told apart from")):
        said += _group(comparisons, group, words, baseline)
    said += _group(comparisons, "unknown", "not compared with", baseline)
    return f"Bits a byte on the test text: {'; '.join(said)}."


def _group(comparisons: list[dict[str, Any]], wanted: str, words: str, baseline: str) -> list[str]:
    names = [variant_name(entry["variant"]) for entry in comparisons if outcome(entry) == wanted]
    return [f"{join_words(names)} {'is' if len(names) == 1 else 'are'} {words} {baseline}"] if names else []


def _evidence(entry: dict[str, Any]) -> str:
    name, baseline = variant_name(entry["variant"]), variant_name(entry["baseline"])
    if entry["difference_mean"] is None:
        return _not_compared(entry, name, baseline)
    if entry["interval_low"] is None:
        value, other = entry["values"][0], entry["baseline_values"][0]
        return (
            f"{name} had {value:.4f} bits a byte on the test text and {baseline} {other:.4f}. Lower is better, "
            "but another seed may turn that round: run several, such as --seeds 5."
        )
    return f"{_interval(entry, name, baseline)} {_detectable(entry)}"


def _not_compared(entry: dict[str, Any], name: str, baseline: str) -> str:
    if not entry["seeds"]:
        return f"{name} and {baseline} share no seed, so they are not compared."
    broken = [who for who, key in ((name, "values"), (baseline, "baseline_values")) if None in entry[key]]
    return (
        f"{name} and {baseline} are not compared: {join_words(broken)} gave no finite number with at "
        "least one seed: training broke down there, or was not measured."
    )


def _interval(entry: dict[str, Any], name: str, baseline: str) -> str:
    mean, low, high = entry["difference_mean"], entry["interval_low"], entry["interval_high"]
    decimals = decimals_for([mean, low, high])
    meaning = {
        "better": f"Lower is better and 0 lies outside: {name} is better.",
        "worse": f"Lower is better and 0 lies outside: {name} is worse.",
        "open": "0 lies inside, so the two cannot be told apart here, which does not make them equal.",
    }
    return (
        f"{name} minus {baseline}: {signed(mean, decimals)} bits a byte, 95% t interval over "
        f"{entry['seeds']} paired seeds {signed(low, decimals)} to {signed(high, decimals)}. {meaning[outcome(entry)]}"
    )


def _detectable(entry: dict[str, Any]) -> str:
    smallest = entry["detectable"]
    if not smallest:
        return "All pairs differ by the same amount, so no smallest visible difference can be given."
    return (
        f"With this spread, the smallest true difference that {entry['seeds']} seeds show 8 times in 10 "
        f"(80% power) is {number(smallest, 2)} bits a byte."
    )


def _caution(comparisons: list[dict[str, Any]]) -> list[str]:
    if len(comparisons) < 2 or not {"better", "worse"} & set(map(outcome, comparisons)):
        return []
    return [
        "Each interval speaks for one comparison alone: of 20 comparisons between models that do not differ, "
        "about one excludes 0 by chance. The variants are compared with the baseline, not with one another."
    ]


def _unigram(results: Results) -> list[str]:
    bound = finite(((results.get("corpus") or {}).get("unigram_perplexity_word") or {}).get("test"))
    if bound is None:
        return []
    variants = results.get("variants") or ()
    found = {variant: by_seed(results, variant, "test.perplexity_word").values() for variant in variants}
    failed = [v for v, values in found.items() if any(value is None or value >= bound for value in values)]
    worst = max((value for values in found.values() for value in values if value is not None), default=None)
    if failed or worst is None:
        names = join_words([variant_name(variant) for variant in failed]) or "No model"
        return [
            f"{names} {'are' if len(failed) > 1 else 'is'} not shown to beat the add-one unigram bound on the test "
            f"text, a perplexity of {number(bound)} a word, with every seed. Counting words does as well, so trust no "
            "comparison with it."
        ]
    return [
        f"Every model beats the add-one unigram bound on the test text: the worst has a perplexity of "
        f"{number(worst)} a word, counting words alone gives {number(bound)}."
    ]


def _parameters(results: Results) -> list[str]:
    sizes: dict[str, float] = {}
    for run in results.get("runs") or ():
        total = finite((run.get("parameters") or {}).get("total"))
        if total:
            sizes[run["variant"]] = total
    if not sizes:
        return []
    base = sizes.get(str(results.get("baseline")))
    shown = [f"{variant_name(v)} {count(size)}{_percent(size, base)}" for v, size in sizes.items()]
    matched = "were matched" if results.get("match_parameters") else "were not matched"
    text = f"Parameters {matched}: {join_words(shown)}."
    if base and any(abs(size / base - 1) > _EQUAL_SIZE for size in sizes.values()):
        text += " A difference may come from size and not from attention."
    return [text]


def _percent(size: float, base: float | None) -> str:
    change = signed(100 * (size / base - 1), 1) if base else "0.0"
    return "" if change == "0.0" else f" ({change}%)"


def _speed(results: Results) -> list[str]:
    speed, baseline = results.get("speed") or {}, results.get("baseline")
    others = [variant for variant in results.get("variants") or () if variant != baseline]
    parts = []
    for kind, words in (("train_step", "a training step takes"), ("decode", "decoding a token takes")):
        ratios = [_ratio(variant, (speed.get(kind) or {}).get(variant) or {}) for variant in others]
        if any(ratios):
            parts.append(f"{words} {join_words([ratio for ratio in ratios if ratio])}")
    if not parts:
        return []
    base = variant_name(str(baseline))
    rounds = "in brackets the middle half of the rounds"
    return [f"Time, as a multiple of that of {base} ({rounds}): {'; '.join(parts)}."]


def _ratio(variant: str, entry: dict[str, Any]) -> str:
    ratio, low, high = (finite(entry.get(f"ratio_{key}")) for key in ("median", "low", "high"))
    if ratio is None:
        return ""
    spread = f" ({low:.2f} to {high:.2f})" if low is not None and high is not None else ""
    return f"{ratio:.2f}{spread} with {variant_name(variant)}"


def _limits(results: Results) -> list[str]:
    tokens = finite((results.get("settings") or {}).get("tokens"))
    text = (results.get("corpus") or {}).get("name")
    if tokens is None or not text:
        return []
    return [
        f"All this is about models of this size trained on {count(tokens)} tokens of {text}; larger "
        "models or longer training may come out otherwise."
    ]
