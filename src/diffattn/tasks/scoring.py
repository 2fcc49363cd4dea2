"""What a continuation in text gets right, makes up, and cites falsely."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["holds", "score_continuation"]


def holds(continuation: str, answer: str) -> bool:
    """Whether the answer stands in the continuation as words of its own: "12" is not in "123"; case does not matter."""
    return re.search(rf"(?<!\w){re.escape(answer.strip())}(?!\w)", continuation, re.IGNORECASE) is not None


def score_continuation(
    continuation: str, *, answers: Sequence[str], false_answers: Sequence[str], answerable: bool
) -> dict[str, float]:
    """The measures that a question of this kind has a say in, each 0 to 1; those that it has none in are left out.

    Args:
        continuation: what the model wrote after the prompt.
        answers: what it has to hold; where the prompt holds no answer, what says so.
        false_answers: what it must not hold.
        answerable: whether the prompt holds the answer.

    Returns:
        `found`, the share of the answers that it holds, for an answerable question; `fabrication`, 1 where nothing says
        that there is no answer, for another; `false_citation`, 1 where a false answer stands in it, if there are any.
    """
    share = sum(holds(continuation, answer) for answer in answers) / len(answers)
    scores = {"found": share} if answerable else {"fabrication": float(share == 0)}
    if false_answers:
        scores["false_citation"] = float(any(holds(continuation, answer) for answer in false_answers))
    return scores
