"""Tables of what was measured of trained language models beside their loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from diffattn.experiments.studies.budgets import named
from diffattn.report.wording import MISSING, finite, number, signed, variant_name

__all__ = ["measure_tables"]

Results = Mapping[str, Any]
Value = Callable[[Mapping[str, Any]], Any]


def measure_tables(results: Results) -> list[dict[str, Any]]:
    """Outliers, robustness, and what is lost without the subtraction; those of which anything was measured."""
    found = [_outliers(results), _robustness(results), _switched_off(results)]
    return [table for table in found if table]


def _outliers(results: Results) -> dict[str, Any] | None:
    def at(part: str, place: int | None) -> Value:
        def value(measures: Mapping[str, Any]) -> Any:
            found = measures["outliers"][part]
            return found["median"] if place is None else found["largest"][place]

        return value

    columns = {
        f"{words}, {rank}": at(part, place)
        for words, part in (("Logit", "logits"), ("Hidden", "hidden"))
        for rank, place in (("largest", 0), ("10th", 3), ("100th", 4), ("median", None))
    }
    columns["Context RMS, largest"] = lambda measures: measures["context_rms"]["largest"]
    return _table(
        results,
        "outliers",
        "Largest attention logits, hidden states and contexts",
        columns,
        "Absolute values, means over seeds: scaled logits of all layers and maps, hidden states behind each layer, "
        "the RMS of a token's context before any norm.",
    )


def _robustness(results: Results) -> dict[str, Any] | None:
    def worse(part: str, key: str, size: float) -> Value:
        def value(measures: Mapping[str, Any]) -> Any:
            rows = [row for row in measures["quantised"]["rows"] if row["part"] == part and row[key] == size]
            return ((rows[0]["effect"]["loss_difference"] or {}) if rows else {}).get("mean")

        return value

    columns = {f"Logits, {bits} bits": worse("logits", "bits", bits) for bits in (8, 6, 4)}
    columns |= {f"Keys and values, {bits} bits": worse("cache", "bits", bits) for bits in (8, 6, 4)}
    columns |= {f"Embeddings, noise {noise}": worse("embeddings", "noise", noise) for noise in (0.03, 0.1, 0.3)}
    columns["bfloat16, error of logits"] = lambda measures: measures["bfloat16_error"]["rms"]
    return _table(
        results,
        "robustness",
        "Loss added by rounding and noise",
        columns,
        "Nats a token beyond the undisturbed model's, means over seeds; logits rounded for each query and map, keys "
        "and values for each token and head; noise as a share of each embedding's size. The last column is relative.",
        plus=True,
    )


def _switched_off(results: Results) -> dict[str, Any] | None:
    def lost(name: str) -> Value:
        def value(measures: Mapping[str, Any]) -> Any:
            rows = [r for r in measures["switch_off"]["rows"] if r["intervention"] == name and r["layer"] is None]
            return ((rows[0]["effect"]["loss_difference"] or {}) if rows else {}).get("mean")

        return value

    columns = {
        "Lambda 0": lost("lambda_zero"),
        "Lambda at its mean": lost("lambda_mean"),
        "Second map uniform": lost("uniform_noise_map"),
        "Dead pairs, share": lambda m: m["dead_pairs"]["dead_count"] / m["dead_pairs"]["pairs_count"],
    }
    return _table(
        results,
        "switch-off",
        "Loss added when the subtraction is switched off",
        columns,
        "Nats a token, all heads together, means over seeds. A pair is dead where its maps are correlated above .99 "
        "or its mean lambda is below .05; a sink that both maps share makes for much of that correlation.",
        plus=True,
    )


def _table(
    results: Results, name: str, title: str, columns: Mapping[str, Value], note: str, *, plus: bool = False
) -> dict[str, Any] | None:
    rows = []
    for variant in results["variants"]:
        measured = [run["measures"] for run in named(results["runs"], variant) if run["measures"]]
        cells = [_cell([_of(value, measures) for measures in measured], plus) for value in columns.values()]
        if any(cell != MISSING for cell in cells):
            rows.append([variant_name(variant), *cells])
    if not rows:
        return None
    return {"name": name, "title": title, "head": ["Variant", *columns], "rows": rows, "note": note}


def _of(value: Value, measures: Mapping[str, Any]) -> float | None:
    try:
        return finite(value(measures))
    except KeyError:  # not measured of this variant
        return None


def _cell(values: Sequence[float | None], plus: bool) -> str:
    whole = [value for value in values if value is not None]
    if not whole:
        return MISSING
    mean = fmean(whole)
    return signed(mean, 4) if plus else number(mean, 4)
