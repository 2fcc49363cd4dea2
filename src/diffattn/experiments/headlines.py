"""The few numbers of each measure that are worth a line; the rest is in its JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from diffattn.report.wording import MISSING, finite, number, percent, signed

__all__ = ["headlines"]

Line = tuple[str, str, str]


def headlines(measured: Mapping[str, Any]) -> list[Line]:
    """Of what `inspect_model` and `attention_on_needles` (as "attention") gave: measure, what of it, value."""
    return [(name, *line) for name, result in measured.items() for line in _LINES[name](result)]


def _outliers(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    ranks = result["config"]["ranks"]
    for part, words in (("logits", "attention logit"), ("hidden", "hidden state")):
        for rank, value in zip(ranks, result[part]["largest"], strict=True):
            yield f"{words}, number {rank} by size", _number(value)
        yield f"{words}, median size", _number(result[part]["median"])


def _context(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "largest RMS of a token's context", _number(result["largest"])


def _gradients(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "norm of all parameters", _number(result["total"])
    kinds = list(dict.fromkeys(name for layer in result["layers"] for name in layer))
    inside = {kind: [layer.get(kind, 0.0) for layer in result["layers"]] for kind in kinds}
    for name, values in {**{name: [value] for name, value in result["outside"].items()}, **inside}.items():
        whole = [value for value in values if value is not None]
        yield f"norm of {name}", _number(math.hypot(*whole) if len(whole) == len(values) else None)


def _bfloat16(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "RMS error of the logits", _share(result["rms"])
    yield "same likeliest token", _share(result["same_likeliest"])


def _quantised(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for row in result["rows"]:
        how = f"{row['bits']} bits" if row["noise"] is None else f"noise of {row['noise']:g}"
        yield f"loss added, {row['part']}, {how}", _added(row["effect"])


def _lambda(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for layer in result["layers"]:
        yield f"mean of layer {layer['layer'] + 1}", _number(layer["mean"])
    yield "largest size", _number(result["largest_absolute"])
    yield f"above {result['config']['threshold']:g}", str(result["above"])


def _switch_off(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for row in result["rows"]:
        if row["layer"] is None:
            yield f"loss added, {row['intervention'].replace('_', ' ')}, all heads", _added(row["effect"])
    alone = [row for row in result["rows"] if row["layer"] is not None and row["intervention"] == "lambda_zero"]
    ends = [(row["effect"]["loss_difference"] or {}).get("low") for row in alone]
    if alone:
        harmed = sum(low is not None and low > 0 for low in ends)
        yield "heads without whose lambda the loss is higher, interval above 0", f"{harmed} of {len(alone)}"


def _dead(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("correlated", "silent", "dead"):
        yield f"{name} pairs", f"{result[f'{name}_count']} of {result['pairs_count']}"


def _attention(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    summary = result["summary"]
    for words, mass in (("all heads", summary["mean"]), ("best head", summary["best_mass"])):
        for share in ("answer", "noise", "sink"):
            yield f"on the {share}, {words}", _share((mass or {}).get(f"{share}_share"))
    yield "entropy of the first map, nats", _number(summary["first"]["entropy"])
    yield "negative mass", _number(summary["mean"]["negative"])


_LINES: dict[str, Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]]] = {
    "attention": _attention,
    "outliers": _outliers,
    "context_rms": _context,
    "gradient_norms": _gradients,
    "bfloat16_error": _bfloat16,
    "quantised": _quantised,
    "lambda_values": _lambda,
    "switch_off": _switch_off,
    "dead_pairs": _dead,
}


def _number(value: Any) -> str:
    return MISSING if finite(value) is None else number(value, 4)


def _share(value: Any) -> str:
    return MISSING if finite(value) is None else percent(value)


def _added(effect: Mapping[str, Any]) -> str:
    """The added loss with its interval, nats a token."""
    found = effect["loss_difference"]
    if effect["diverged"] or found is None:
        return "diverged" if effect["diverged"] else MISSING
    if found["low"] is None:
        return signed(found["mean"], 4)
    return f"{signed(found['mean'], 4)} ({signed(found['low'], 4)} to {signed(found['high'], 4)})"
