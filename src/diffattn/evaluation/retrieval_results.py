"""What is reported of answers to questions, whether as one token or as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from diffattn.evaluation.rates import Rate, rate

__all__ = ["DepthRate", "Outcomes", "RetrievalGrid", "RetrievalRates", "check_depths", "grid", "retrieval_rates"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """What became of each question, each `[N, Q]`, a row a sequence.

    Attributes:
        correct: bool, or the share of the answers that were found.
        answerable: bool.
        refused: bool, said that there is no answer; None where it is not known what says so.
        cited: bool, gave a near-duplicate's answer.
        citable: bool, there are near-duplicates.
        depths: float64, NaN where there is none.
        finite: whether every output of the model was.
    """

    correct: np.ndarray
    answerable: np.ndarray
    refused: np.ndarray | None
    cited: np.ndarray
    citable: np.ndarray
    depths: np.ndarray
    finite: bool


@dataclass(frozen=True, kw_only=True)
class DepthRate:
    """Accuracy of the answerable questions whose fact stands nearest to this depth (0 start, 1 end)."""

    depth: float
    accuracy: Rate


@dataclass(frozen=True, kw_only=True)
class RetrievalRates:
    """What became of the questions.

    Attributes:
        accuracy: of the answerable questions.
        by_depth: the same for each of the configuration's depths.
        fabrication: share of the questions without an answer for which the model gave anything but the token (or
            word) that says so.
        false_citation: share of the questions with near-duplicates for which one of their answers was given.
        refusal: share of the answerable questions to which the model said that there is no answer; None where it is
            not known what says so.
        diverged: an output of the model was NaN or infinite; all shares are then None.
    """

    accuracy: Rate
    by_depth: tuple[DepthRate, ...]
    fabrication: Rate
    false_citation: Rate
    refusal: Rate | None
    diverged: bool


@dataclass(frozen=True, kw_only=True)
class RetrievalGrid:
    """Depth x length.

    Attributes:
        lengths: in rising order.
        depths: the configuration's.
        cells: accuracy, a row a length, a column a depth.
        rates: all of each length.
    """

    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    cells: tuple[tuple[Rate, ...], ...]
    rates: tuple[RetrievalRates, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def grid(rates: Mapping[int, RetrievalRates], depths: tuple[float, ...]) -> RetrievalGrid:
    """From the rates of each length."""
    lengths = tuple(sorted(rates))
    return RetrievalGrid(
        lengths=lengths,
        depths=depths,
        cells=tuple(tuple(at.accuracy for at in rates[length].by_depth) for length in lengths),
        rates=tuple(rates[length] for length in lengths),
    )


def check_depths(name: str, depths: tuple[float, ...]) -> None:
    """Raise a ValueError that names the configuration unless depths are numbers from 0 to 1, rising."""
    if any(not 0 <= depth <= 1 for depth in depths) or list(depths) != sorted(set(depths)):
        raise ValueError(f"{name}: depths must be numbers from 0 to 1, rising, not {depths}")


def retrieval_rates(outcomes: Outcomes, depths: tuple[float, ...]) -> RetrievalRates:
    """Every rate; a question is counted at the nearest of `depths`, at the smaller of two that are as near."""
    answerable, known = outcomes.answerable, outcomes.finite
    nearest = _nearest(outcomes.depths, depths)
    at_depth = [answerable & (nearest == index) for index in range(len(depths))]
    accuracies = [rate(outcomes.correct, counted, known=known) for counted in at_depth]
    return RetrievalRates(
        accuracy=rate(outcomes.correct, answerable, known=known),
        by_depth=tuple(DepthRate(depth=d, accuracy=a) for d, a in zip(depths, accuracies, strict=True)),
        fabrication=rate(outcomes.correct < 1, ~answerable, known=known),
        false_citation=rate(outcomes.cited, outcomes.citable, known=known),
        refusal=None if outcomes.refused is None else rate(outcomes.refused, answerable, known=known),
        diverged=not known,
    )


def _nearest(values: np.ndarray, depths: tuple[float, ...]) -> np.ndarray:
    """Index of the nearest depth, -1 for NaN."""
    if not depths:
        return np.full(values.shape, -1)
    distances = np.abs(values[..., None] - np.array(depths))
    return np.where(np.isnan(values), -1, np.where(np.isnan(distances), np.inf, distances).argmin(-1))
