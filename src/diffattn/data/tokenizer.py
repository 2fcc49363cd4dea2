"""A byte-level BPE: any text goes in and comes out unchanged, and every token stands for known bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from diffattn.errors import UserError

__all__ = ["END_OF_TEXT", "SMALLEST_VOCABULARY", "pieces", "token_bytes", "train_tokenizer", "wrap"]

END_OF_TEXT = "<|endoftext|>"
SMALLEST_VOCABULARY = 257
_PIECE = 1 << 16


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Train a byte-level BPE with GPT-2's splitting into words and one special token, `<|endoftext|>`, id 0.

    Args:
        texts: the train split, in pieces of any length.
        vocab_size: the size to reach, special token included; a small corpus may give fewer.

    Raises:
        UserError: `vocab_size` has no room for the 256 bytes and the special token.
    """
    if vocab_size < SMALLEST_VOCABULARY:
        raise UserError(
            f"a vocabulary of {vocab_size} is too small: use at least {SMALLEST_VOCABULARY} "
            "(256 bytes and one special token)"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # As in training, where the token stands before every document: a prompt begins with it.
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END_OF_TEXT} $A",
        pair=f"{END_OF_TEXT} $A {END_OF_TEXT} $B",
        special_tokens=[(END_OF_TEXT, 0)],
    )
    return tokenizer


def wrap(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """The tokenizer as Transformers has it: one token is eos, bos and pad; batches are padded on the left."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TEXT,
        bos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def token_bytes(tokenizer: PreTrainedTokenizerFast) -> list[bytes]:
    """The bytes that each token stands for, by id; special tokens stand for none.

    Raises:
        ValueError: the tokenizer is not a byte-level one.
    """
    special = set(tokenizer.all_special_ids)
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return [b"" if index in special else _bytes_of(name) for index, name in enumerate(names)]


def pieces(document: str, limit: int = _PIECE) -> Iterator[str]:
    """Cut a long document at line ends where GPT-2's word pattern cuts too, so that its tokens stay the same.

    Args:
        document: any text.
        limit: characters to stay under where such a place is found.
    """
    start = 0
    while len(document) - start > limit:
        end = _last_cut(document, start, start + limit) or _first_cut(document, start + limit)
        if end is None:
            break
        yield document[start:end]
        start = end
    yield document[start:]


def _last_cut(text: str, start: int, end: int) -> int | None:
    line_end = text.rfind("\n", start, end)
    while line_end > start:
        if _cuts_words(text, line_end + 1):
            return line_end + 1
        line_end = text.rfind("\n", start, line_end)
    return None


def _first_cut(text: str, start: int) -> int | None:
    line_end = text.find("\n", start)
    while line_end != -1:
        if _cuts_words(text, line_end + 1):
            return line_end + 1
        line_end = text.find("\n", line_end + 1)
    return None


def _cuts_words(text: str, position: int) -> bool:
    """After a newline: a visible character between two of them, or one space and then a visible character."""
    following = text[position : position + 2]
    if following[:1] == " ":
        return _is_visible(following[1:])
    return _is_visible(following[:1]) and _is_visible(text[position - 2 : position - 1])


def _is_visible(character: str) -> bool:
    return "!" <= character <= "~" or character.isalnum()


@cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's alphabet for bytes: printable Latin-1 stands for itself, the rest follow in order from U+0100."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(256 + index): byte for index, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


def _bytes_of(name: str) -> bytes:
    alphabet = _byte_of_character()
    try:
        return bytes(alphabet[character] for character in name)
    except KeyError:
        raise ValueError(f"token {name!r} is not made of bytes: measures need a byte-level tokenizer") from None
