"""How a run was measured, as titled lists of names and values, and the table of paired differences."""

from __future__ import annotations

from typing import Any

from diffattn.report.wording import (
    MISSING,
    bytes_text,
    decimals_for,
    duration,
    finite,
    join_words,
    number,
    signed,
    variant_name,
)

__all__ = ["Interval", "facts", "intervals", "pairs"]

Interval = dict[str, str]
Facts = list[tuple[str, list[tuple[str, str]]]]


def facts(results: dict[str, Any]) -> Facts:
    """Sections of (name, value): run, text, settings, model, speed, versions, machine; no empty ones."""
    sections = [
        ("Run", _run(results)),
        ("Text", _text(results.get("corpus") or {})),
        ("Training settings", pairs(results.get("settings"))),
        ("Baseline model", pairs(results.get("baseline_config"))),
        ("Speed", _speed(results.get("speed") or {})),
        ("Versions", pairs(results.get("versions"))),
        ("Machine", pairs(results.get("machine"))),
    ]
    return [(title, found) for title, found in sections if found]


def intervals(results: dict[str, Any]) -> list[Interval]:
    """One row for each comparison that has a difference: its pair, mean, interval, detectable."""
    return [
        _interval(entry)
        for entry in results.get("comparisons") or ()
        if finite(entry.get("difference_mean")) is not None
    ]


def _interval(entry: dict[str, Any]) -> Interval:
    mean, low, high = (finite(entry.get(key)) for key in ("difference_mean", "interval_low", "interval_high"))
    decimals = decimals_for([value for value in (mean, low, high) if value is not None])
    known = low is not None and high is not None
    smallest = finite(entry.get("detectable"))
    split, _, _ = str(entry.get("measure")).partition(".")
    return {
        "who": f"{variant_name(entry.get('variant', '?'))} minus {variant_name(entry.get('baseline', '?'))}",
        "measure": f"{split} {entry.get('unit', '')}",
        "mean": signed(mean or 0.0, decimals),
        "interval": f"{signed(low or 0.0, decimals)} to {signed(high or 0.0, decimals)}" if known else "none: one seed",
        "detectable": number(smallest, 2) if smallest else MISSING,
        "seeds": str(entry.get("seeds", "")),
    }


def _run(results: dict[str, Any]) -> list[tuple[str, str]]:
    seeds = ", ".join(map(str, results.get("seeds") or ()))
    seconds = finite(results.get("seconds"))
    matched = {True: "matched", False: "not matched"}.get(results.get("match_parameters"))  # type: ignore[arg-type]
    found = [
        ("created", results.get("created")),
        ("time taken", None if seconds is None else duration(seconds)),
        ("preset", results.get("preset")),
        ("seeds", seeds),
        ("variants", ", ".join(map(str, results.get("variants") or ()))),
        ("baseline", results.get("baseline")),
        ("parameters", matched),
        ("tokens of a split evaluated, at most", _limit(results)),
    ]
    return [(name, str(value)) for name, value in found if value not in (None, "")]


def _limit(results: dict[str, Any]) -> str | None:
    if "evaluation_tokens" not in results:
        return None
    return _value("tokens", results["evaluation_tokens"] or "all")


def _text(corpus: dict[str, Any]) -> list[tuple[str, str]]:
    found = [(name, corpus.get(name)) for name in ("name", "sha256", "vocab_size")]
    found += [(str(split), _counts(entry)) for split, entry in (corpus.get("splits") or {}).items()]
    bounds = corpus.get("unigram_perplexity_word") or {}
    found += [
        (f"add-one unigram, {split}", f"perplexity {number(bound)} a word")
        for split, value in bounds.items()
        if (bound := finite(value))
    ]
    return [(_label(name), _value(name, value)) for name, value in found if value is not None]


def _counts(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    counts = [f"{value:,} {key}" for key, value in entry.items() if isinstance(value, int)]
    tail = f", sha256 {entry['sha256']}" if entry.get("sha256") else ""
    return join_words(counts) + tail


def _speed(speed: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for kind, unit in (("train_step", "seconds"), ("decode", "milliseconds_per_token")):
        rounds = max((len(entry.get(unit) or ()) for entry in (speed.get(kind) or {}).values()), default=0)
        if rounds:
            text = f"{rounds} rounds, the variants taking turns; median, and in brackets the middle half"
            found.append(("training step" if kind == "train_step" else "decoding", text))
    return found


def pairs(tree: Any) -> list[tuple[str, str]]:
    """A flat tree of a results file as names and values for a reader; empty where there is none."""
    return [(_label(name), _value(name, value)) for name, value in (tree or {}).items()]


def _label(name: Any) -> str:
    return str(name).replace("_", " ")


def _value(name: Any, value: Any) -> str:
    """The value as stored, but bytes in MiB and whole numbers with thousands separated (a seed is a name)."""
    if isinstance(value, dict):
        return ", ".join(f"{_label(key)} {_value(key, entry)}" for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_value(name, entry) for entry in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name != "seed":
        return bytes_text(value) if str(name).endswith("_bytes") else f"{value:,}"
    if value is None or (isinstance(value, float) and finite(value) is None):
        return MISSING
    return str(value)
