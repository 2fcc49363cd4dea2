"""Arithmetic of a whole model: forward, training, prefill, and one step of decoding.

Convention: a multiply-add is 2 FLOPs; matrix products alone count (no norms, softmax, activations, embedding lookup); a
backward is twice its forward; a causal query at position t sees t + 1 keys, or the window's.
"""

from __future__ import annotations

from dataclasses import dataclass

from diffattn.planning.body import Model

__all__ = ["DecodeStep", "decode_step", "forward_flops", "prefill_flops", "seen_keys", "training_flops"]


def seen_keys(length: int, window: int | None = None, *, causal: bool = True) -> int:
    """Keys that all queries of a sequence see together.

    Args:
        length: of the sequence.
        window: keys that a query sees at most.
        causal: otherwise each sees all, as counters that know of no mask count.
    """
    if not causal:
        return length * length
    if window is None or window >= length:
        return length * (length + 1) // 2
    return window * (window + 1) // 2 + (length - window) * window


def forward_flops(model: Model, length: int, *, causal: bool = True, logits: int | None = None) -> int:
    """FLOPs of one sequence's forward pass.

    Args:
        length: tokens of the sequence.
        causal: see `seen_keys`.
        logits: tokens that logits are made for; None for all.
    """
    total = 2 * model.vocab * model.width * (length if logits is None else logits)
    for layer in model.layers:
        total += length * (layer.attention.linear_flops() + layer.feed_forward.linear_flops())
        total += seen_keys(length, layer.window, causal=causal) * layer.attention.pair_flops()
    return total


def prefill_flops(model: Model, length: int) -> int:
    """FLOPs of reading a prompt of this length: logits for its last token alone."""
    return forward_flops(model, length, logits=1)


def training_flops(model: Model, length: int) -> float:
    """FLOPs a token of training on sequences of this length: forward and, twice that, backward."""
    return 3 * forward_flops(model, length) / length


@dataclass(frozen=True, kw_only=True)
class DecodeStep:
    """What one step of decoding costs, all sequences of the batch together.

    Attributes:
        linear_flops, linear_bytes: projections, feed-forward and output, and the weights that they read.
        attention_flops, attention_bytes: scores and products with values, and the cache that they read.
    """

    linear_flops: float
    linear_bytes: float
    attention_flops: float
    attention_bytes: float

    @property
    def flops(self) -> float:
        return self.linear_flops + self.attention_flops

    @property
    def bytes(self) -> float:
        return self.linear_bytes + self.attention_bytes

    @property
    def intensity(self) -> float:
        """FLOPs a byte of the whole step."""
        return self.flops / self.bytes

    def seconds(self, rate: float, bandwidth: float) -> float:
        """The roofline: linear parts and attention follow one another, each bound by arithmetic or by memory."""
        linear = max(self.linear_flops / rate, self.linear_bytes / bandwidth)
        return linear + max(self.attention_flops / rate, self.attention_bytes / bandwidth)


def decode_step(
    model: Model, context: int, batch: int, bytes_an_element: float, *, queries: int = 1, combined: bool = False
) -> DecodeStep:
    """One step at `context` cached tokens a sequence; a layer with a window reads no more than that.

    Every weight counts as read, the table of an embedding of its own too, though a step reads only its tokens' rows.

    Args:
        context: cached tokens of each sequence.
        batch: sequences.
        bytes_an_element: of weights and cache.
        queries: tokens a step of each sequence (more than one with speculation).
        combined: see `Attention.pair_flops`.
    """
    tokens, pairs, stored, weights = batch * queries, 0, 0, 0.0
    linear = 2 * model.vocab * model.width * tokens
    for layer in model.layers:
        keys = batch * min(context, layer.window or context)
        pairs += keys * queries * layer.attention.pair_flops(combined=combined, decode=True)
        stored += keys * layer.attention.cache_elements
        linear += tokens * (layer.attention.linear_flops(decode=True) + layer.feed_forward.linear_flops())
        weights += sum(layer.attention.parameters().values()) + layer.feed_forward.read(tokens) + layer.norms
    parameters = model.parameters()
    weights += sum(parameters.get(name, 0) for name in ("embedding", "output matrix")) + model.final_norm
    return DecodeStep(
        linear_flops=linear,
        linear_bytes=weights * bytes_an_element,
        attention_flops=pairs,
        attention_bytes=stored * bytes_an_element,
    )
