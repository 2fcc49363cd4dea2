"""Perplexity a token and a word, and bits a byte, which does not depend on the tokenizer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from diffattn.data import PreparedData
from diffattn.data.corpora import count_words
from diffattn.data.progress import delayed_progress
from diffattn.data.tokenizer import token_bytes
from diffattn.errors import UserError
from diffattn.evaluation._setting import check_length, device_of, mode, require_positive

__all__ = ["PerplexityConfig", "PerplexityResult", "measure"]

_TEXT_CHUNK = 1 << 16
_MOST_PARTS = 100


@dataclass(frozen=True, kw_only=True)
class PerplexityConfig:
    """How to measure.

    Attributes:
        split: "train", "validation" or "test".
        context: tokens that the model is given at once; at most this many precede a predicted one.
        batch_size: windows at once; the result does not depend on it.
        max_tokens: predict only this many tokens from the start of the split; None for all.
    """

    split: str = "test"
    context: int = 256
    batch_size: int = 8
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        require_positive(self, "context", "batch_size")
        if self.max_tokens is not None:
            require_positive(self, "max_tokens")


@dataclass(frozen=True, kw_only=True)
class PerplexityResult:
    """What was measured.

    Attributes:
        split: the split that it was measured on.
        context: the windows' length in tokens.
        tokens: predicted tokens, `<|endoftext|>` between documents included.
        bytes: UTF-8 bytes of the predicted text, special tokens excluded.
        words: its whitespace words plus its newlines.
        nll: negative log-likelihood of all predicted tokens, nats.
        loss: nll a token, nats.
        perplexity_token: exp(nll / tokens).
        perplexity_word: exp(nll / words).
        bits_per_byte: nll / ln 2 / bytes.
        part_tokens: tokens of each of at most 100 parts of the text, in order; differences between two models vary
            from part to part, which tells how much text a comparison needs.
        part_nll: nll of each part.
    """

    split: str
    context: int
    tokens: int
    bytes: int
    words: int
    nll: float
    loss: float
    perplexity_token: float
    perplexity_word: float
    bits_per_byte: float
    part_tokens: list[int]
    part_nll: list[float]

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON has them."""
        return asdict(self)


def measure(
    model: PreTrainedModel, data: PreparedData, config: PerplexityConfig, *, progress: bool = False
) -> PerplexityResult:
    """Predict every token of a split but the first, an `<|endoftext|>`, exactly once.

    The stream is cut into windows of context + 1 tokens, each starting with the last token of the one before:

        window 0   t0 -> t1 t2 .. tC
        window 1                  tC -> tC+1 .. t2C         and so on; the last one may be shorter

    Logits are taken in float32, log-likelihoods summed in float64. The model's mode is put back afterwards.

    Args:
        model: a causal language model of the data's tokenizer, on any device.
        data: the prepared corpus.
        config: split, context, batch size and how many tokens.
        progress: show a bar where it takes longer than two seconds.

    Raises:
        UserError: the split is shorter than one context, the context longer than the model's, or the model's
            vocabulary smaller than the tokenizer's.
    """
    stream = _stream(model, data, config)
    with (
        torch.inference_mode(),
        mode(model, training=False),
        delayed_progress(f"Measuring the {config.split} split", len(stream) - 1, enabled=progress) as advance,
    ):
        windows: list[tuple[int, float]] = []
        for batch in _windows(stream, config.context, config.batch_size):
            windows += [(batch.shape[1] - 1, nll) for nll in _batch_nll(model, batch)]
            advance(batch.shape[0] * (batch.shape[1] - 1))
    size, words = _text_size(stream[1:], token_bytes(data.tokenizer))
    return _result(config, windows, size=size, words=words)


def _stream(model: PreTrainedModel, data: PreparedData, config: PerplexityConfig) -> np.ndarray:
    check_length(model, config.context, "a context")
    if model.config.vocab_size < data.vocab_size:
        raise UserError(
            f"the model knows {model.config.vocab_size} tokens, the corpus was prepared with "
            f"{data.vocab_size}: prepare it with the model's own tokenizer"
        )
    stream = data.tokens(config.split)
    if len(stream) < config.context + 1:
        raise UserError(
            f"the {config.split} split has {len(stream)} tokens, which do not fill one context of "
            f"{config.context}: give more text or a smaller context"
        )
    return stream if config.max_tokens is None else stream[: config.max_tokens + 1]


def _windows(stream: np.ndarray, context: int, batch_size: int) -> Iterator[torch.Tensor]:
    """Batches int64 `[at most batch_size, context + 1]`, then one `[1, shorter]` where something remains."""
    full = (len(stream) - 1) // context
    for first in range(0, full, batch_size):
        starts = range(first * context, min(first + batch_size, full) * context, context)
        yield torch.from_numpy(np.stack([stream[start : start + context + 1] for start in starts]).astype(np.int64))
    rest = stream[full * context :]
    if len(rest) > 1:
        yield torch.from_numpy(rest.astype(np.int64))[None]


def _batch_nll(model: PreTrainedModel, batch: torch.Tensor) -> list[float]:
    """Of each window."""
    batch = batch.to(device_of(model))
    logits = model(input_ids=batch[:, :-1], use_cache=False).logits
    losses = cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten(), reduction="none")
    return losses.cpu().double().view(len(batch), -1).sum(dim=1).tolist()


def _text_size(tokens: np.ndarray, table: list[bytes]) -> tuple[int, int]:
    """Bytes and words of the text of these tokens, read in chunks; an unfinished last word is a word."""
    lengths = np.array([len(piece) for piece in table])
    # Where a document ends, so does its last word.
    spaced = [piece or b" " for piece in table]
    size = words = 0
    left = b""
    for start in range(0, len(tokens), _TEXT_CHUNK):
        chunk = tokens[start : start + _TEXT_CHUNK]
        size += int(lengths[chunk].sum())
        text = left + b"".join(spaced[token] for token in chunk.tolist())
        end = 1 + max(text.rfind(b"\n"), text.rfind(b" "))
        words += count_words(text[:end].decode(errors="replace"))
        left = text[end:]
    return size, words + count_words(left.decode(errors="replace"))


def _result(config: PerplexityConfig, windows: list[tuple[int, float]], *, size: int, words: int) -> PerplexityResult:
    parts = [windows[start:end] for start, end in pairwise(_bounds(len(windows)))]
    tokens, nll = sum(count for count, _ in windows), math.fsum(value for _, value in windows)
    return PerplexityResult(
        split=config.split,
        context=config.context,
        tokens=tokens,
        bytes=size,
        words=words,
        nll=nll,
        loss=nll / tokens,
        perplexity_token=_perplexity(nll, tokens),
        perplexity_word=_perplexity(nll, words),
        bits_per_byte=nll / math.log(2) / size if size else math.inf,
        part_tokens=[sum(count for count, _ in part) for part in parts],
        part_nll=[math.fsum(value for _, value in part) for part in parts],
    )


def _bounds(windows: int) -> list[int]:
    """Where parts of nearly equal length begin, and where the last ends."""
    parts = min(windows, _MOST_PARTS)
    return [windows * part // parts for part in range(parts + 1)]


def _perplexity(nll: float, count: int) -> float:
    try:
        return math.exp(nll / count)
    except (OverflowError, ZeroDivisionError):
        return math.inf
