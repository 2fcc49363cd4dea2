"""A decoder by its numbers: layers of attention and feed-forward, embedding and output; its parameters by component."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from diffattn.planning.attention import Attention

__all__ = ["Experts", "FeedForward", "Layer", "Model"]


@dataclass(frozen=True, kw_only=True)
class Experts:
    """A mixture in place of one feed-forward.

    Attributes:
        count: experts of a layer.
        active: experts that a token goes through.
        shared: inner width that every token goes through besides.
        router_bias: whether the router has a bias.
        shared_gate: whether a sigmoid of the token scales the shared part.
    """

    count: int
    active: int
    shared: int = 0
    router_bias: bool = False
    shared_gate: bool = False


@dataclass(frozen=True, kw_only=True)
class FeedForward:
    """The feed-forward of one layer.

    Attributes:
        width: of the residual stream.
        inner: its inner width, that of one expert where there are several.
        matrices: 3 with a gate (SwiGLU), 2 without.
        bias: whether each matrix has one.
        extra: further parameters of the activation.
        experts: None for a dense one.
    """

    width: int
    inner: int
    matrices: int = 3
    bias: bool = False
    extra: int = 0
    experts: Experts | None = None

    def parameters(self) -> dict[str, int]:
        """Parameters of one layer by component."""
        if self.experts is None:
            return {"feed-forward": self.one(self.inner)}
        router = self.experts.count * (self.width + self.experts.router_bias) + self.experts.shared_gate * self.width
        found = {"router": router, "experts": self.experts.count * self.one(self.inner)}
        return found | ({"shared expert": self.one(self.experts.shared)} if self.experts.shared else {})

    def one(self, inner: int) -> int:
        """Parameters of one feed-forward of this inner width."""
        return self.matrices * self.width * inner + self._biases(inner) + self.extra

    def _biases(self, inner: int) -> int:
        return self.bias * ((self.matrices - 1) * inner + self.width)

    def linear_flops(self) -> int:
        """FLOPs of one token: 2 for each weight of the matrices that it goes through."""
        if self.experts is None:
            return 2 * self.matrices * self.width * self.inner
        inner = self.experts.active * self.inner + self.experts.shared
        router = self.width * (self.experts.count + self.experts.shared_gate)
        return 2 * (self.matrices * self.width * inner + router)

    def read(self, tokens: int) -> float:
        """Parameters that a step of so many tokens reads; experts are hit at random, each as likely as the others."""
        found = self.parameters()
        if self.experts is not None:
            missed = (1 - self.experts.active / self.experts.count) ** tokens
            return sum(found.values()) - missed * found["experts"]
        return sum(found.values())

    @property
    def per_unit(self) -> int:
        """Parameters that one more unit of `inner` brings."""
        return (self.experts.count if self.experts else 1) * (self.one(1) - self.one(0))


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer.

    Attributes:
        norms: parameters of its norms on the residual stream.
        window: keys that a query sees at most; None for all.
    """

    attention: Attention
    feed_forward: FeedForward
    norms: int
    window: int | None = None


@dataclass(frozen=True, kw_only=True)
class Model:
    """A decoder-only language model.

    Attributes:
        name: as a reader knows it.
        width: of the residual stream.
        vocab: rows of the embedding.
        tied: whether the output matrix is the embedding.
        final_norm: parameters of the last norm.
        output_bias: whether the output matrix has a bias.
        layers: from the first to the last.
        positions: tokens that it was made for.
        notes: what was assumed when its numbers were read.
    """

    name: str
    width: int
    vocab: int
    tied: bool
    final_norm: int
    layers: tuple[Layer, ...]
    output_bias: bool = False
    positions: int | None = None
    notes: tuple[str, ...] = ()

    def parameters(self) -> dict[str, int]:
        """Parameters of the whole model by component; a tied output matrix counts once, as embedding."""
        found: Counter[str] = Counter(embedding=self.vocab * self.width)
        for layer in self.layers:
            found.update(layer.attention.parameters())
            found.update(layer.feed_forward.parameters())
            found.update(norms=layer.norms)
        found.update(norms=self.final_norm)
        head = (0 if self.tied else self.vocab * self.width) + self.output_bias * self.vocab
        return dict(found) | ({"output matrix": head} if head else {})

    @property
    def total(self) -> int:
        return sum(self.parameters().values())

    @property
    def active(self) -> int:
        """Parameters that one token goes through: of each mixture its active and shared experts alone."""
        idle = 0
        for layer in self.layers:
            mixture = layer.feed_forward.experts
            if mixture is not None:
                idle += (mixture.count - mixture.active) * layer.feed_forward.one(layer.feed_forward.inner)
        return self.total - idle

    @property
    def attention_total(self) -> int:
        """Parameters of all attention layers."""
        return sum(sum(layer.attention.parameters().values()) for layer in self.layers)

    @property
    def cache_elements(self) -> int:
        """Numbers that one token leaves in the caches of all layers, windows aside."""
        return sum(layer.attention.cache_elements for layer in self.layers)

    def with_attention(self, change: dict[Attention, Attention], name: str | None = None) -> Model:
        """The model with each of these attentions replaced."""
        layers = tuple(replace(layer, attention=change.get(layer.attention, layer.attention)) for layer in self.layers)
        return replace(self, layers=layers, name=name or self.name)

    def with_inner(self, change: int, name: str | None = None) -> Model:
        """The model with `change` units more in the inner width of each layer's feed-forward."""
        layers = tuple(
            replace(layer, feed_forward=replace(layer.feed_forward, inner=layer.feed_forward.inner + change))
            for layer in self.layers
        )
        return replace(self, layers=layers, name=name or self.name)
