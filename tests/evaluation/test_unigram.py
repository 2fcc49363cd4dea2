from __future__ import annotations

import math
from pathlib import Path

import pytest

from diffattn.data import Corpus, load_corpus
from diffattn.evaluation import add_one_unigram

WIKITEXT = Path(__file__).resolve().parents[3] / "shared" / "data" / "wikitext-2"


def test_by_hand() -> None:
    corpus = Corpus("tiny", {"train": ["a a b\n", "a"], "validation": ["b"], "test": ["a c\n", "d"]})
    # Train: a 3, b 1, <eos> 1: 5 words of 3 types, so denominators are 9; c and d share the unseen type.
    expected = math.exp(-(math.log(4 / 9) + 2 * math.log(1 / 9) + math.log(2 / 9)) / 4)
    assert add_one_unigram(corpus, "test") == pytest.approx(expected, rel=1e-12)
    assert add_one_unigram(corpus, "validation") == pytest.approx(9 / 2, rel=1e-12)


def test_no_newlines_no_end_of_line_type() -> None:
    corpus = Corpus("tiny", {"train": ["a"], "validation": ["a"], "test": ["b"]})
    assert add_one_unigram(corpus, "test") == pytest.approx(3, rel=1e-12)


@pytest.mark.skipif(not WIKITEXT.is_dir(), reason="WikiText-2 is not beside this repository")
def test_wikitext_bound() -> None:
    assert add_one_unigram(load_corpus(str(WIKITEXT)), "test") == pytest.approx(914.4, abs=0.05)
