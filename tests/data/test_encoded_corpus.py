from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from diffattn.data import Corpus, EncodedCorpus
from diffattn.errors import UserError

WORDS = ["<s>", "</s>", "one", "two", "three", "<", "s", ">", "</"]
CORPUS = Corpus("numbers", {"train": ["one"], "validation": ["two"], "test": ["one two", "three <s> one"]})


def tokenizer(**special):
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="one"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def words(ids):
    return [WORDS[i] for i in ids]


@pytest.mark.parametrize(
    ("special", "before"),
    [({"bos_token": "<s>", "eos_token": "</s>"}, ["<s>"]), ({"eos_token": "</s>"}, ["</s>"]), ({}, [])],
)
def test_documents_follow_one_another(special, before):
    encoded = EncodedCorpus(tokenizer(**special), CORPUS)
    tokens = encoded.tokens("test")
    assert tokens.dtype == np.int64
    assert words(tokens) == [*before, "one", "two", *before, "three", "<", "s", ">", "one"]
    assert words(encoded.tokens("train")) == [*before, "one"]
    assert encoded.tokens("test") is tokens
    assert encoded.corpus == CORPUS.summary()


def test_there_is_no_such_split():
    with pytest.raises(UserError, match="no split 'dev': use train, validation or test"):
        EncodedCorpus(tokenizer(), CORPUS).tokens("dev")


def test_long_documents_are_encoded_whole():
    text = "one two three\n" * 10_000
    corpus = Corpus("long", {"train": ["one"], "validation": ["one"], "test": [text]})
    assert words(EncodedCorpus(tokenizer(), corpus).tokens("test")) == ["one", "two", "three"] * 10_000
