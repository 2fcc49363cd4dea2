"""The perplexity that counting words alone reaches: a bound that any trained model must beat."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from diffattn.data import Corpus

__all__ = ["add_one_unigram"]


def add_one_unigram(corpus: Corpus, split: str) -> float:
    """Perplexity a word of an add-one unigram model of the train split's words.

    With N words and V types in the train split, p(w) = (count(w) + 1) / (N + V + 1): all words unseen there
    share one further type. Words are those of `Corpus.summary()`: split at white space, each newline a word `<eos>`.

    Args:
        corpus: the text; its train split is counted.
        split: the split to measure, "train", "validation" or "test".
    """
    train = _counts(corpus.splits["train"])
    measured = _counts(corpus.splits[split])
    denominator = math.log(train.total() + len(train) + 1)
    nll = sum(count * (denominator - math.log(train[word] + 1)) for word, count in measured.items())
    return math.exp(nll / measured.total())


def _counts(documents: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for document in documents:
        counts.update(document.split())
        counts["<eos>"] += document.count("\n")
    return +counts
