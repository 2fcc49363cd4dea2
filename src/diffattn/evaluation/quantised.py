"""Robustness: loss and retrieval with attention logits, keys and values in few bits, and with noisy embeddings.

A subtraction keeps the error of both maps and little of what they have in common, so that it may amplify either; the
difference to the model's own loss tells. Rounding is symmetric and dynamic: to whole multiples of

    max |x| / (2^(bits - 1) - 1)

- logits: what softmax takes, each query row of each head (for a head of two maps, of each map) with a maximum of its
  own, over the keys that the query sees. Differential Transformer (arXiv:2410.05258, figure 8) rounds logits by their
  largest absolute value too, and does not say over what.
- cache: keys (already rotated) and values, each token and key/value head with a maximum of its own, as a quantised
  cache has. V1's two keys of a head are one vector there, and have one maximum.
- embeddings: normal noise on every channel, its standard deviation a share of the vector's root mean square.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from diffattn.data.progress import delayed_progress
from diffattn.evaluation._row_attention import AttentionCall
from diffattn.evaluation._setting import row_generator
from diffattn.evaluation.effects import Effect, Sample, effect, mean_scores, scores
from diffattn.evaluation.recorded_scores import taking
from diffattn.evaluation.retrieval import RetrievalConfig
from diffattn.models.embedding import with_noise

__all__ = [
    "QuantisedConfig",
    "QuantisedResult",
    "QuantisedRow",
    "measure",
    "noisy_embeddings",
    "quantised_cache",
    "quantised_logits",
    "rounded",
]


@dataclass(frozen=True, kw_only=True)
class QuantisedConfig:
    """What to try: one pass over the data for the model, and one for each entry.

    Attributes:
        logit_bits: for the attention logits, each 2 or more; 8 is one byte.
        cache_bits: for keys and values.
        embedding_noise: standard deviations, as shares of each embedding's root mean square.
        seed: of that noise.
        retrieval: how questions are asked; its batch size holds for the loss too.
    """

    logit_bits: tuple[int, ...] = (8, 6, 4)
    cache_bits: tuple[int, ...] = (8, 6, 4)
    embedding_noise: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3)
    seed: int = 0
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)

    def __post_init__(self) -> None:
        for name in ("logit_bits", "cache_bits"):
            if any(not 2 <= bits <= 24 for bits in getattr(self, name)):
                raise ValueError(f"QuantisedConfig: {name} must be from 2 to 24, not {getattr(self, name)}")
        if any(not noise > 0 for noise in self.embedding_noise):
            raise ValueError(f"QuantisedConfig: embedding_noise must be above 0, not {self.embedding_noise}")
        if self.seed < 0:
            raise ValueError(f"QuantisedConfig: seed must be 0 or more, not {self.seed}")


@dataclass(frozen=True, kw_only=True)
class QuantisedRow:
    """One way of disturbing: `part` is "logits" or "cache" with `bits`, or "embeddings" with `noise`."""

    part: str
    bits: int | None
    noise: float | None
    effect: Effect


@dataclass(frozen=True, kw_only=True)
class QuantisedResult:
    """What was measured: `loss`, `accuracy`, `answer_loss` of the model itself, as in `Effect`, and a row a try."""

    config: QuantisedConfig
    loss: float | None
    accuracy: float | None
    answer_loss: float | None
    rows: tuple[QuantisedRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def measure(
    model: PreTrainedModel, data: Sample, config: QuantisedConfig, *, progress: bool = False
) -> QuantisedResult:
    """Loss and retrieval of the model, and with each disturbance. Afterwards the model is what it was.

    Scores are made a block of query rows at a time. Differential heads of this package are subtracted in float32 after
    both maps were disturbed, as with any engine.

    Raises:
        UserError: the model's attention does not go through transformers' attention interface, or the data are longer
            than its context.
    """
    tries: list[tuple[str, int | None, float | None, AbstractContextManager[None]]] = [
        *(("logits", bits, None, quantised_logits(model, bits)) for bits in config.logit_bits),
        *(("cache", bits, None, quantised_cache(model, bits)) for bits in config.cache_bits),
        *(("embeddings", None, noise, noisy_embeddings(model, noise, config.seed)) for noise in config.embedding_noise),
    ]
    rows = []
    with delayed_progress("Disturbing", 1 + len(tries), enabled=progress) as advance:
        plain = scores(model, data, config.retrieval)
        advance(1)
        for part, bits, noise, disturbed in tries:
            with disturbed:
                changed = effect(plain, scores(model, data, config.retrieval))
            rows.append(QuantisedRow(part=part, bits=bits, noise=noise, effect=changed))
            advance(1)
    return QuantisedResult(config=config, **mean_scores(plain), rows=tuple(rows))


@contextmanager
def quantised_logits(model: PreTrainedModel, bits: int) -> Iterator[None]:
    """Inside, what every softmax of the model's attention takes is rounded; raises as `measure`."""
    with taking(model, lambda call: call._replace(change=partial(rounded, bits=bits))):
        yield


@contextmanager
def quantised_cache(model: PreTrainedModel, bits: int) -> Iterator[None]:
    """Inside, the keys and values that every query of the model sees are rounded; raises as `measure`."""

    def take(call: AttentionCall) -> AttentionCall:
        return call._replace(key=rounded(call.key, bits=bits), value=rounded(call.value, bits=bits))

    with taking(model, take):
        yield


@contextmanager
def noisy_embeddings(model: PreTrainedModel, noise: float, seed: int = 0) -> Iterator[None]:
    """Inside, the model's input embedding gives vectors with noise.

    The n-th sequence that is embedded inside has the n-th noise of this seed, so that batches of any size get the same.
    """
    rows = count()

    def disturb(_: nn.Module, given: tuple[Any, ...], vectors: Tensor) -> Tensor:
        return torch.stack([with_noise(row, noise, row_generator(seed, next(rows)), relative=True) for row in vectors])

    hook = model.get_input_embeddings().register_forward_hook(disturb)
    try:
        yield
    finally:
        hook.remove()


def rounded(x: Tensor, *, bits: int) -> Tensor:
    """Each row of the last dimension to whole multiples of its largest absolute number / (2^(bits - 1) - 1).

    In float32 or wider, then back in the dtype of `x`; -inf, an unseen key, stays and is not counted.
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    unseen = wide == -torch.inf
    largest = wide.masked_fill(unseen, 0.0).abs().amax(-1, keepdim=True)
    step = (largest / (2 ** (bits - 1) - 1)).masked_fill(largest == 0, 1.0)
    return ((wide / step).round() * step).to(x.dtype)
