"""Facts in characters of a prompt become ranges of its tokens."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from diffattn.errors import UserError
from diffattn.evaluation.answer_spans import as_spans, text_questions
from diffattn.tasks import TextExample


def example(prompt, *spans):
    return TextExample(prompt=prompt, answers=(), spans=spans, length=0, max_new_tokens=1)


@pytest.fixture(scope="module")
def tokenizer():
    """Words of at most three letters and single punctuation marks; white space belongs to no token."""
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "sky": 2, "is": 3, "47": 4, ".": 5}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")


def test_tokens_of_which_any_character_is_the_facts(tokenizer):
    prompt = "the sky is 47. is the sky"
    found = text_questions([example(prompt, (11, 13), (5, 12)), example("sky is"), example(prompt, (3, 15))], tokenizer)
    assert found[0].tokens.tolist() == [[1, 2, 3, 4, 5, 3, 1, 2]]
    assert found[0].queries.tolist() == [[7, 7]]
    assert found[0].sources.tolist() == [[[3, 4], [1, 4]]]
    assert (found[1].queries.tolist(), found[1].sources.tolist()) == ([[1]], [[[-1, -1]]])
    assert found[2].sources.tolist() == [[[1, 5]]]
    queries, sources = as_spans(found[1])
    assert (queries.tolist(), sources.tolist()) == ([[1]], [[[0, 0]]])


def test_positions_become_ranges(tokenizer):
    question = text_questions([example("the sky is 47.", (4, 7))], tokenizer)[0]
    object.__setattr__(question, "queries", np.array([[4, 4]]))
    object.__setattr__(question, "sources", np.array([[0, -1]]))
    assert as_spans(question)[1].tolist() == [[[0, 1], [0, 0]]]


def test_spans_of_no_token_and_tokenizers_without_offsets(tokenizer, monkeypatch):
    with pytest.raises(ValueError, match="spans: expected characters that some token stands for, got 3 to 4"):
        text_questions([example("the sky", (3, 4))], tokenizer)
    monkeypatch.setattr(PreTrainedTokenizerFast, "is_fast", False)
    with pytest.raises(UserError, match="does not tell which characters a token stands for"):
        text_questions([example("the sky", (0, 3))], tokenizer)
