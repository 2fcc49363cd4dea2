from __future__ import annotations

import math
from pathlib import Path

import pytest

from diffattn.data import Corpus, load_corpus
from diffattn.evaluation import add_one_unigram

WIKITEXT = Path(__file__).resolve().parents[3] / "shared" / "data" / "wikitext-2"


def test_by_hand() -> None:
    corpus = Corpus("tiny", {"train": ["a a b\n", "a"], "validation": ["b"], "test": ["a c\n", "d"]})
    # Train: a 3, b 1, <eos> 1: 5 words of 3 types, so denominators are 9; c and d share the unseen type and
    # are spelled: bytes a 3, b 1, ends 4, each of 257 symbols one more, so denominators are 265.
    spelled = math.log(1 / 265) + math.log(5 / 265)
    expected = math.exp(-(math.log(4 / 9) + 2 * (math.log(1 / 9) + spelled) + math.log(2 / 9)) / 4)
    assert add_one_unigram(corpus, "test") == pytest.approx(expected, rel=1e-12)
    assert add_one_unigram(corpus, "validation") == pytest.approx(9 / 2, rel=1e-12)


def test_no_newlines_no_end_of_line_type() -> None:
    corpus = Corpus("tiny", {"train": ["a"], "validation": ["a"], "test": ["b"]})
    # Train: a alone, so an unseen word has 1 of 3; of 259 spelling symbols b has 1, the end 2.
    assert add_one_unigram(corpus, "test") == pytest.approx(3 * 259 * 259 / 2, rel=1e-12)


@pytest.mark.skipif(not WIKITEXT.is_dir(), reason="WikiText-2 is not beside this repository")
def test_wikitext_bound() -> None:
    assert add_one_unigram(load_corpus(str(WIKITEXT)), "test") == pytest.approx(914.4, abs=0.05)


def test_probabilities() -> None:
    """Seen words, newline and the unseen type; the unseen type then goes to single words by their spelling."""
    train = ["a b a\n"]
    seen = sum(
        1 / add_one_unigram(Corpus("t", {"train": train, "validation": ["a"], "test": [word]}), "test")
        for word in ("a", "b")
    )
    both = add_one_unigram(Corpus("t", {"train": train, "validation": ["a"], "test": ["a\n"]}), "test")
    newline = 1 / both**2 / (3 / 8)
    unseen = 1 / (4 + 3 + 1)
    assert seen + newline + unseen == pytest.approx(1, rel=1e-12)
    one = 1 / add_one_unigram(Corpus("t", {"train": train, "validation": ["a"], "test": ["c"]}), "test")
    two = 1 / add_one_unigram(Corpus("t", {"train": train, "validation": ["a"], "test": ["cc"]}), "test")
    # Spelling symbols: a 2 and b 1 and 3 ends, each of 257 one more: 263.
    assert one == pytest.approx(unseen * (1 / 263) * (4 / 263), rel=1e-12)
    assert two == pytest.approx(one / 263, rel=1e-12)
