"""One row a variant, mean over seeds with the range: shared by the terminal and the web page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import Any

from diffattn.report.wording import MISSING, bytes_text, count, finite, number, variant_name

__all__ = ["COLUMNS", "Cell", "Column", "rows"]


@dataclass(frozen=True)
class Cell:
    """What one cell of the table shows.

    Attributes:
        text: the mean (a median for speed), or a dash where nothing was measured.
        spread: the range, in words; empty where there is one value.
    """

    text: str
    spread: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.spread})" if self.spread else self.text


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        title: its heading.
        note: what the numbers are: a unit, which way is better.
        cell: makes the cell from the results and the variant's name in them.
    """

    title: str
    note: str
    cell: Callable[[dict[str, Any], str], Cell]


def rows(results: dict[str, Any]) -> list[tuple[Cell, ...]]:
    """The table's rows in the order of `results["variants"]`, each with one cell for each of `COLUMNS`.

    Missing measures give a dash; a seed whose value is not finite is said to have broken down, not averaged away.
    """
    return [tuple(column.cell(results, variant) for column in COLUMNS) for variant in results.get("variants") or ()]


def _runs(results: dict[str, Any], variant: str) -> list[dict[str, Any]]:
    return [run for run in results.get("runs") or () if run.get("variant") == variant]


def _look_up(tree: Any, *keys: str) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _name(results: dict[str, Any], variant: str) -> Cell:
    baseline = variant == results.get("baseline") and len(results.get("variants") or ()) > 1
    return Cell(variant_name(variant), "baseline" if baseline else "")


def _over_seeds(show: Callable[[float], str], *keys: str) -> Callable[[dict[str, Any], str], Cell]:
    def cell(results: dict[str, Any], variant: str) -> Cell:
        found = [finite(_look_up(run, *keys)) for run in _runs(results, variant)]
        return _mean(show, [value for value in found if value is not None])

    return cell


def _quality(show: Callable[[float], str], split: str, key: str) -> Callable[[dict[str, Any], str], Cell]:
    def cell(results: dict[str, Any], variant: str) -> Cell:
        measured = [_look_up(run, "evaluation", split) for run in _runs(results, variant)]
        found = [finite(measure.get(key)) for measure in measured if isinstance(measure, dict)]
        broken = sum(value is None for value in found)
        if broken:
            return Cell("broke down", f"{broken} of {len(found)} seeds" if len(found) > 1 else "")
        return _mean(show, [value for value in found if value is not None])

    return cell


def _mean(show: Callable[[float], str], values: list[float]) -> Cell:
    if not values:
        return Cell(MISSING)
    low, high = show(min(values)), show(max(values))
    return Cell(show(fmean(values)), f"{low} to {high}" if low != high else "")


def _step_ratio(results: dict[str, Any], variant: str) -> Cell:
    entry = _look_up(results, "speed", "train_step", variant)
    ratio, low, high = (finite(_look_up(entry, f"ratio_{key}")) for key in ("median", "low", "high"))
    if ratio is None:
        return Cell(MISSING)
    if variant == results.get("baseline"):
        return Cell("1")
    return Cell(f"{ratio:.2f}", f"{low:.2f} to {high:.2f}" if low is not None and high is not None else "")


def _decode(results: dict[str, Any], variant: str) -> Cell:
    samples = _look_up(results, "speed", "decode", variant, "milliseconds_per_token") or ()
    values = [value for value in map(finite, samples) if value is not None]
    if not values:
        return Cell(MISSING)
    low, _, high = quantiles(values, method="inclusive") if len(values) > 1 else values * 3
    spread = f"{number(low, 3)} to {number(high, 3)}"
    return Cell(number(median(values), 3), spread if len(values) > 1 else "")


def _four_digits(value: float) -> str:
    return number(value, max(4, len(str(int(value)))))


def _bits(value: float) -> str:
    return f"{value:.4f}"


COLUMNS: tuple[Column, ...] = (
    Column(title="Variant", note="", cell=_name),
    Column(title="Parameters", note="all of the model", cell=_over_seeds(count, "parameters", "total")),
    Column(
        title="Validation perplexity a token",
        note="lower is better",
        cell=_quality(_four_digits, "validation", "perplexity_token"),
    ),
    Column(
        title="Test perplexity a token",
        note="lower is better",
        cell=_quality(_four_digits, "test", "perplexity_token"),
    ),
    Column(
        title="Test perplexity a word",
        note="lower is better",
        cell=_quality(_four_digits, "test", "perplexity_word"),
    ),
    Column(title="Test bits a byte", note="lower is better", cell=_quality(_bits, "test", "bits_per_byte")),
    Column(
        title="Training tokens a second",
        note="higher is better",
        cell=_over_seeds(count, "training", "tokens_per_second"),
    ),
    Column(title="Step time ratio", note="to the baseline; lower is better", cell=_step_ratio),
    Column(
        title="Peak memory",
        note="in training; lower is better",
        cell=_over_seeds(bytes_text, "training", "peak_memory_bytes"),
    ),
    Column(title="Decoding, ms a token", note="lower is better", cell=_decode),
)
