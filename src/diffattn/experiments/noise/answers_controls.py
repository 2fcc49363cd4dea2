"""The cheap controls and the closed form's reach, in words made from the numbers."""

from __future__ import annotations

from typing import Any

from diffattn.report.noise_rows import between, closed, find, method_name, rows_of, share_between, value
from diffattn.report.wording import as_given, join_words, percent, quantity

__all__ = ["cheaper", "trust"]

Results = dict[str, Any]
Row = dict[str, Any]


def cheaper(results: Results) -> list[str]:
    """What each control brings beside the best lambda, on the same draws."""
    best = find(results, "length", "best", results["options"]["length"])
    rows = {row["method"]: row for row in rows_of(results, "controls")}
    scaled = [_scaled(rows[name]) for name in ("temperature", "log_n") if name in rows]
    return [_ahead(list(rows.values()), best), *scaled, _unchanged(results, rows), _top_k(rows["top_k"])]


def _ahead(rows: list[Row], best: Row | None) -> str:
    """Which controls have a larger gain than the best lambda."""
    base = value(best, "gain")
    ahead = [method_name(row) for row in rows if base is not None and (value(row, "gain") or 0) > base]
    said = f"{join_words(ahead)} {'do' if len(ahead) > 1 else 'does'} more" if ahead else "no control does more"
    return (
        f"On the same draws the best lambda's gain in signal-to-noise per position is {between(best, 'gain')}; "
        f"{said}, and none of them needs a second map."
    )


def _scaled(row: Row) -> str:
    caution = "" if row["holds"] else " A few draws decide that number, so its interval is only rough."
    knows = (
        ", which takes knowing margin and strength, as the best lambda does" if row["method"] == "temperature" else ""
    )
    name = method_name(row).capitalize()
    return (
        f"{name}{knows}: the match gets {share_between(row, 'match_weight')} of the weight; signal-to-noise is "
        f"{between(row, 'signal_to_noise')} per position and {between(row, 'output_signal_to_noise')} of the "
        f"output.{caution}"
    )


def _unchanged(results: Results, rows: dict[str, Row]) -> str:
    sink, gate = rows["sink"], rows["gate"]
    softmax = find(results, "length", "softmax", results["options"]["length"])
    return (
        f"A sink with {as_given(sink['parameter'])} for its score lowers the noise's weight to "
        f"{share_between(sink, 'noise_mass')} and the match's to {share_between(sink, 'match_weight')}; a gate of "
        f"{as_given(gate['parameter'])} leaves {share_between(gate, 'noise_mass')} and "
        f"{share_between(gate, 'match_weight')}. Neither tells match from noise: signal-to-noise per position is "
        f"{between(sink, 'signal_to_noise')} and {between(gate, 'signal_to_noise')} beside softmax's "
        f"{between(softmax, 'signal_to_noise')}. They let a head say less where it found nothing."
    )


def _top_k(row: Row) -> str:
    return (
        f"Keeping the {as_given(row['parameter'])} largest scores kept the match in {percent(row['kept'])} of draws "
        f"and gives it {share_between(row, 'match_weight')} of the weight; signal-to-noise is "
        f"{between(row, 'signal_to_noise')} per position, and {between(row, 'output_signal_to_noise')} of the output. "
        "A match that is not among the largest is lost for good."
    )


def trust(results: Results) -> list[str]:
    """In how many intervals the closed form lies, and where it fails."""
    found = [row["measures"]["signal_to_noise"]["inside"] for row in results["rows"] if row["holds"]]
    known = [inside for inside in found if inside is not None]
    said = [
        f"Where it holds, the closed form of signal-to-noise per position lies in {sum(known)} of {len(known)} "
        "intervals of 95%. Settings of one length share their draws, so that misses come together."
    ]
    return [*said, *_failing(results)]


def _failing(results: Results) -> list[str]:
    outside = [row for row in rows_of(results, "failing") if row["measures"]["signal_to_noise"]["inside"] is False]
    if not outside:
        return []
    row = find(results, "failing", "softmax", 4.0) or outside[-1]
    return [
        f"It fails where a few noise scores decide the sum, near a strength of sqrt(2 ln N): at {row['length']:,} "
        f"keys, margin {as_given(row['margin'])} and strength {as_given(row['strength'])} it says "
        f"{quantity(closed(row, 'signal_to_noise') or 0.0)}, and measured is {between(row, 'signal_to_noise')}."
    ]
