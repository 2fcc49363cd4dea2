"""The few numbers of each measure that are worth a line; the rest is in its JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from diffattn.report.wording import MISSING, finite, number, percent, signed

__all__ = ["by_kind", "headlines"]

Line = tuple[str, str, str]


def headlines(measured: Mapping[str, Any]) -> list[Line]:
    """Of what `inspect_model` and `attention_on_needles` (as "attention") gave: measure, what of it, value."""
    return [(name, *line) for name, result in measured.items() for line in _LINES[name](result)]


def _outliers(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    ranks = result["config"]["ranks"]
    for part, words in (("logits", "attention logit"), ("hidden", "hidden state")):
        found = result[part]
        for rank, value in zip(ranks, found["largest"], strict=True):
            yield f"{words}, number {rank} by size", _unless(found["not_finite"], _number(value))
        yield f"{words}, median size", _unless(found["not_finite"], _number(found["median"]))


def _context(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    broken = any(layer["not_finite"] for layer in result["layers"])
    yield "largest RMS of a token's context", _unless(broken, _number(result["largest"]))


def _gradients(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "norm of all parameters", _number(result["total"])
    for name, norm in by_kind(result).items():
        yield f"norm of {name}", _number(norm)


def by_kind(result: Mapping[str, Any]) -> dict[str, float | None]:
    """What `gradient_norms` gave for each kind of module, all layers together; None where one is not finite."""
    kinds = list(dict.fromkeys(name for layer in result["layers"] for name in layer))
    inside = {kind: [layer.get(kind, 0.0) for layer in result["layers"]] for kind in kinds}
    whole = {kind: None if None in norms else math.hypot(*norms) for kind, norms in inside.items()}
    return {**result["outside"], **whole}


def _bfloat16(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "RMS error of the logits", _unless(result["not_finite"], _share(result["rms"]))
    yield "same likeliest token", _unless(result["not_finite"], _share(result["same_likeliest"]))


def _quantised(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for row in result["rows"]:
        how = f"{row['bits']} bits" if row["noise"] is None else f"noise of {row['noise']:g}"
        yield f"loss added, {row['part']}, {how}", _added(row["effect"])


def _lambda(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    means = [layer["mean"] for layer in result["layers"]]
    broken = any(finite(mean) is None for mean in means)
    for layer, mean in zip(result["layers"], means, strict=True):
        yield f"mean of layer {layer['layer'] + 1}", _unless(finite(mean) is None, _number(mean))
    yield "largest size", _unless(broken, _number(result["largest_absolute"]))
    yield f"above {result['config']['threshold']:g}", _unless(broken, str(result["above"]))


def _switch_off(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for row in result["rows"]:
        if row["layer"] is None:
            yield f"loss added, {row['intervention'].replace('_', ' ')}, all heads", _added(row["effect"])
    alone = [row for row in result["rows"] if row["layer"] is not None and row["intervention"] == "lambda_zero"]
    ends = [(row["effect"]["loss_difference"] or {}).get("low") for row in alone]
    if alone:
        broken = any(row["effect"]["diverged"] for row in alone)
        harmed = sum(low is not None and low > 0 for low in ends)
        found = MISSING if None in ends else f"{harmed} of {len(alone)}"  # of one sequence there are no intervals
        yield "heads without whose lambda the loss is higher, interval above 0", _unless(broken, found)


def _dead(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("correlated", "silent", "dead"):
        found = f"{result[f'{name}_count']} of {result['pairs_count']}"
        yield f"{name} pairs", _unless(result["diverged"], found)


def _attention(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    summary = result["summary"]
    yield "tokens of a prompt, at most", number(result["prompt_tokens"])
    for words, mass in (("all heads", summary["mean"]), ("best head", summary["best_mass"])):
        for share in ("answer", "noise", "sink"):
            yield f"on the {share}, {words}", _share((mass or {}).get(f"{share}_share"))
    yield "entropy of the first map, nats", _number(summary["first"]["entropy"])
    yield "negative mass", _number(summary["mean"]["negative"])


def _needles(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for length, row in zip(result["lengths"], result["grid"]["cells"], strict=True):
        for depth, cell in zip(result["depths"], row, strict=True):
            interval = "" if cell["low"] is None else f" ({percent(cell['low'])} to {percent(cell['high'])})"
            yield f"found at {length:,} tokens, depth {depth:.0%}", f"{_share(cell['share'])}{interval}"
    if result["numbers"]:
        yield "what the tokenizer makes of numbers", result["numbers"]


_LINES: dict[str, Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]]] = {
    "attention": _attention,
    "needles": _needles,
    "outliers": _outliers,
    "context_rms": _context,
    "gradient_norms": _gradients,
    "bfloat16_error": _bfloat16,
    "quantised": _quantised,
    "lambda_values": _lambda,
    "switch_off": _switch_off,
    "dead_pairs": _dead,
}


def _unless(diverged: Any, words: str) -> str:
    """What was found, unless it was found among numbers of which some are none."""
    return "diverged" if diverged else words


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
