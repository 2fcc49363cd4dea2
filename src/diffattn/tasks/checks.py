"""What a task needs of a model and its tokenizer, said plainly where it is not so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diffattn.errors import UserError

__all__ = ["NumberTokens", "check_fits", "check_numbers", "number_tokens"]

Encode = Callable[[str], list[int]]
Decode = Callable[[list[int]], str]


def check_fits(length: int, longest: int | None) -> None:
    """Refuse a task longer than a model's context.

    Args:
        length: tokens of the prompt, and of the answer where one is generated.
        longest: tokens that the model can take; None: any number.

    Raises:
        UserError: the task is longer.
    """
    if longest is not None and length > longest:
        raise UserError(
            f"the task takes {length:,} tokens and the model's context holds {longest:,}: give a smaller length, or a "
            "model with a longer context"
        )


@dataclass(frozen=True)
class NumberTokens:
    """How a tokenizer takes numbers.

    Attributes:
        mean: tokens of a number, on average.
        most: tokens of the worst.
        digits: digits of the longest.
        split: numbers that take more than one token a digit.
        lost: numbers that do not come back when decoded.
    """

    mean: float
    most: int
    digits: int
    split: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def problem(self) -> str | None:
        """One sentence if numbers are split badly or lost, else None."""
        if self.lost:
            return f"encoded and decoded, the number {self.lost[0]} does not come back"
        if self.split:
            return (
                f"the number {self.split[0]} takes more than one token a digit (numbers of {self.digits} digits take "
                f"{self.mean:.1f} tokens on average and {self.most} at most)"
            )
        return None


def number_tokens(encode: Encode, decode: Decode, numbers: Sequence[str]) -> NumberTokens:
    """Tokens of each number within a sentence, and whether it survives.

    The space before a number is not counted, so a tokenizer with one token a digit and one for the space is not said to
    split numbers.

    Args:
        encode: token ids of a text, special tokens or not.
        decode: the text of token ids.
        numbers: of digits, for example answers of a task.

    Raises:
        ValueError: there is no number, or one that is not of digits.
    """
    if not numbers or not all(number.isdecimal() for number in numbers):
        raise ValueError(f"numbers must be strings of digits, at least one, got {list(numbers)!r}")
    one_digit = len(encode("The number is 0"))
    counts = [len(encode(f"The number is {number}")) - one_digit + 1 for number in numbers]
    lost = [number for number in numbers if number not in decode(encode(f"The number is {number}")).split()]
    split = [number for number, count in zip(numbers, counts, strict=True) if count > len(number)]
    longest = max(map(len, numbers))
    return NumberTokens(sum(counts) / len(counts), max(counts), longest, tuple(split), tuple(lost))


def check_numbers(encode: Encode, decode: Decode, numbers: Sequence[str]) -> NumberTokens:
    """`number_tokens`, refusing a tokenizer with which a task about numbers would measure the tokenizer.

    Raises:
        UserError: a number takes more than one token a digit, or does not come back when decoded.
    """
    found = number_tokens(encode, decode, numbers)
    if found.problem:
        raise UserError(
            f"this tokenizer splits numbers badly: {found.problem}; give another model, or a task whose answers are "
            "words"
        )
    return found
