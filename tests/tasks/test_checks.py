"""Tokenizers that take numbers well and badly, and tasks that do not fit."""

from __future__ import annotations

import re

import pytest

from diffattn.errors import UserError
from diffattn.tasks import check_fits, check_numbers, number_tokens

NUMBERS = ["1234567", "9000001"]


class Pieces:
    """Tokens are what the pattern finds, after one for the start; ids are given as they come."""

    def __init__(self, pattern, join=""):
        self.pattern, self.join, self.known = re.compile(pattern), join, ["<s>"]

    def encode(self, text):
        return [0, *(self.id(piece) for piece in self.pattern.findall(text))]

    def id(self, piece):
        if piece not in self.known:
            self.known.append(piece)
        return self.known.index(piece)

    def decode(self, ids):
        return self.join.join(self.known[i] for i in ids if i)


@pytest.mark.parametrize(
    ("pattern", "tokens"),
    [(r" ?[A-Za-z]+| |\d", 7), (r" ?[A-Za-z]+| ?\d{1,3}", 3), (r" ?\w+", 1), (r".", 7)],
)
def test_tokens_of_a_number(pattern, tokens):
    tokenizer = Pieces(pattern)
    found = check_numbers(tokenizer.encode, tokenizer.decode, NUMBERS)
    assert (found.mean, found.most, found.digits) == (tokens, tokens, 7)
    assert found.problem is None


def test_more_than_a_token_a_digit_is_refused():
    def encode(text):
        return list(text.encode("utf-16-le"))

    def decode(ids):
        return bytes(ids).decode("utf-16-le")

    found = number_tokens(encode, decode, NUMBERS)
    assert found.split == tuple(NUMBERS)
    assert not found.lost
    assert found.most == 13
    with pytest.raises(UserError, match=r"number 1234567 takes more than one token a digit .*13\.0 tokens on"):
        check_numbers(encode, decode, NUMBERS)


def test_a_number_that_does_not_come_back_is_refused():
    spaced = Pieces(r"[A-Za-z]+|\d", join=" ")
    with pytest.raises(UserError, match="encoded and decoded, the number 1234567 does not come back"):
        check_numbers(spaced.encode, spaced.decode, NUMBERS)


def test_numbers_must_be_numbers():
    for wrong in ([], ["12", "x"]):
        with pytest.raises(ValueError, match="numbers must be strings of digits"):
            number_tokens(len, str, wrong)


def test_a_task_longer_than_the_context():
    check_fits(2048, 2048)
    check_fits(10**9, None)
    with pytest.raises(
        UserError, match="takes 2,049 tokens and the model's context holds 2,048: give a smaller length"
    ):
        check_fits(2049, 2048)
