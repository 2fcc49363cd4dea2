"""Shares of questions with an interval that knows that questions of one sequence are not independent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

__all__ = ["Rate", "rate", "wilson"]


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A share of questions.

    Attributes:
        share: 0 to 1; None where there is no question, or where the model gave no numbers.
        low, high: of the two-sided 95 % interval; None from fewer than 2 sequences.
        questions: counted.
        sequences: that they stand in: the unit of the interval.
    """

    share: float | None
    low: float | None
    high: float | None
    questions: int
    sequences: int


def rate(values: np.ndarray, counted: np.ndarray, *, known: bool = True) -> Rate:
    """The mean of `values` over the counted questions, with an interval over sequences.

    The interval is Wilson's with the number of independent questions that are worth as much as these n:

        n / max(1, d)      d = [k/(k-1) sum_i (y_i - p m_i)^2 / n^2] / [p (1-p) / (n-1)]

    where sequence i of k has m_i questions with the values' sum y_i, and p is the share. d is the design effect: the
    variance of p between sequences over that of n independent questions (Kish, Survey Sampling, 1965; the interval is
    one of Korn and Graubard's, 1998, with Wilson's in the place of Clopper and Pearson's). With one question a sequence
    and values 0 and 1 d is exactly 1, and the interval Wilson's of n. Where p is 0 or 1 nothing shows how alike
    questions of one sequence are: then each sequence counts as a single question.

    Args:
        values: 0 to 1, `[N, Q]`, a row a sequence.
        counted: bool `[N, Q]`.
        known: False where the values mean nothing; the share and the interval are then None.
    """
    sizes = counted.sum(1).astype(np.float64)
    present = sizes > 0
    questions, sequences = int(sizes.sum()), int(present.sum())
    if not known or questions == 0:
        return Rate(share=None, low=None, high=None, questions=questions, sequences=sequences)
    sums = np.where(counted, values, 0).sum(1, dtype=np.float64)[present]
    share = float(sums.sum() / questions)
    low = high = None
    if sequences > 1:
        low, high = wilson(share, _independent(share, sums, sizes[present]))
    return Rate(share=share, low=low, high=high, questions=questions, sequences=sequences)


def wilson(share: float, count: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval (1927) of a share of `count` independent trials; `count` need not be whole."""
    z2 = float(stats.norm.ppf((1 + confidence) / 2)) ** 2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = math.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return (0.0 if share == 0 else middle - half), (1.0 if share == 1 else middle + half)


def _independent(share: float, sums: np.ndarray, sizes: np.ndarray) -> float:
    """How many independent questions are worth as much as those of two or more sequences."""
    sequences, questions = len(sizes), float(sizes.sum())
    if share in (0.0, 1.0):
        return float(sequences)
    between = sequences / (sequences - 1) * float(np.square(sums - share * sizes).sum()) / questions**2
    return questions / max(1.0, between * (questions - 1) / (share * (1 - share)))
