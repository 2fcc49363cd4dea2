from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from diffattn.data.tokenizer import END_OF_TEXT, pieces, token_bytes, train_tokenizer, wrap
from diffattn.errors import UserError

TRAIN = ["def function(argument):\n    return argument + 1\n\n\n" * 20, "the words of a text, the text\n" * 30]
TRAINED: Tokenizer = train_tokenizer(TRAIN, 400)
WRAPPED = wrap(TRAINED)
BYTES = token_bytes(WRAPPED)


def test_special_token_is_zero_and_everything_fits() -> None:
    assert TRAINED.token_to_id(END_OF_TEXT) == 0
    assert 257 < TRAINED.get_vocab_size() <= 400


def test_training_twice_gives_the_same_tokenizer() -> None:
    assert train_tokenizer(TRAIN, 400).to_str() == TRAINED.to_str()


@pytest.mark.parametrize("size", [-1, 0, 256])
def test_vocabulary_without_room_for_bytes_is_refused(size: int) -> None:
    with pytest.raises(UserError, match="at least 257"):
        train_tokenizer(TRAIN, size)


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_any_text_comes_back_and_its_bytes_add_up(text: str) -> None:
    assume(END_OF_TEXT not in text)
    ids = TRAINED.encode(text, add_special_tokens=False).ids
    assert WRAPPED.decode(ids) == text
    assert b"".join(BYTES[token] for token in ids) == text.encode()


def test_every_byte_has_a_token_and_special_ones_have_none() -> None:
    assert len(BYTES) == TRAINED.get_vocab_size()
    assert {bytes([byte]) for byte in range(256)} <= set(BYTES)
    assert BYTES[0] == b""


def test_a_tokenizer_without_bytes_is_refused() -> None:
    changed = Tokenizer.from_str(TRAINED.to_str())
    changed.add_tokens(["▁word"])
    with pytest.raises(ValueError, match="byte-level"):
        token_bytes(wrap(changed))


def test_saves_cleanly_and_loads_as_it_was(tmp_path: Path) -> None:
    wrap(TRAINED).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert (loaded.bos_token_id, loaded.eos_token_id, loaded.pad_token_id) == (0, 0, 0)
    assert loaded("the text\n")["input_ids"] == wrap(TRAINED)("the text\n")["input_ids"]
    assert loaded("the text")["input_ids"][0] == 0
    assert loaded("")["input_ids"] == [0]
    assert set(loaded("a")) == {"input_ids", "attention_mask"}
    assert not any(str(tmp_path) in file.read_text() for file in tmp_path.iterdir())


def test_a_batch_is_padded_on_the_left() -> None:
    batch = wrap(TRAINED)(["the", "the text of a"], padding=True)
    assert batch["attention_mask"][0][0] == 0
    assert batch["attention_mask"][0][-1] == 1


@given(st.text(alphabet="ab1'(= \n\t\r\u00a0\u2003é\x1c", max_size=80), st.integers(1, 10))
@settings(max_examples=300, deadline=None)
def test_pieces_keep_the_text_and_its_tokens(text: str, limit: int) -> None:
    parts = list(pieces(text, limit))
    assert "".join(parts) == text
    encoded = [token for part in parts for token in TRAINED.encode(part, add_special_tokens=False).ids]
    assert encoded == TRAINED.encode(text, add_special_tokens=False).ids


def test_pieces_are_short_where_lines_are() -> None:
    for line in ("some words\n", " words of WikiText , \n"):
        parts = list(pieces(line * 1000, 500))
        assert max(map(len, parts)) <= 500
        assert min(map(len, parts[:-1])) > 400
    assert list(pieces("no line end " * 100, 500)) == ["no line end " * 100]
