"""Counters of tokens for tests, and one text to hide needles in."""

from __future__ import annotations

import re


def words(text):
    return len(text.split())


def pieces(text):
    """Up to three letters or digits, or one of anything else but a space."""
    return 1 + len(re.findall(r"\w{1,3}|[^\w ]", text))


COUNTERS = [len, words, pieces]

# Sentences of uneven lengths, every one another, with line breaks, one line without a full stop and a very long word.
TEXT = "".join(
    f"Sentence {i} of this text{', which goes on for a little while' * (i % 4)}." + ("\n\n" if i % 7 == 0 else " ")
    for i in range(400)
)
TEXT += "A line without a stop\n" + "x" * 700 + " end"
