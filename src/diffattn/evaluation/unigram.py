"""The perplexity that counting words alone reaches: a bound that any trained model must beat."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from diffattn.data import Corpus

__all__ = ["add_one_unigram"]


def add_one_unigram(corpus: Corpus, split: str) -> float:
    """Perplexity a word of an add-one unigram model of the train split's words.

    With N words and V types in the train split, p(w) = (count(w) + 1) / (N + V + 1): one further type stands for all
    words unseen there, and such a word is then spelled, byte by byte to an end mark, by the add-one unigram of the
    train words' bytes; so each word has a probability of its own, as a language model's has. Words are those of
    `Corpus.summary()`: split at white space, each newline a word `<eos>`.

    Args:
        corpus: the text; its train split is counted.
        split: the split to measure, "train", "validation" or "test".
    """
    train = _counts(corpus.splits["train"])
    measured = _counts(corpus.splits[split])
    spelling = _spelling(train)
    denominator = math.log(train.total() + len(train) + 1)
    nll = sum(count * (denominator - math.log(train[word] + 1)) for word, count in measured.items())
    nll += sum(count * _spelled(word, spelling) for word, count in measured.items() if word not in train)
    return math.exp(nll / measured.total())


def _spelling(train: Counter[str]) -> list[float]:
    """Negative log-probability, in nats, of each of the 256 bytes and of the end mark, the last."""
    counts = [1] * 257
    for word, count in train.items():
        if word != "<eos>":
            for byte in word.encode():
                counts[byte] += count
            counts[256] += count
    total = math.log(sum(counts))
    return [total - math.log(count) for count in counts]


def _spelled(word: str, spelling: list[float]) -> float:
    return sum(spelling[byte] for byte in word.encode()) + spelling[256]


def _counts(documents: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for document in documents:
        counts.update(document.split())
        counts["<eos>"] += document.count("\n")
    return +counts
