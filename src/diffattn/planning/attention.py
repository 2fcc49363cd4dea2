"""One attention layer by its numbers: parameters, cache, and the arithmetic of a decode step.

Every variant is the same few numbers: how many softmax maps of which width, how many output heads they make, and which
keys and values are stored. A multiply-add counts as 2 FLOPs; softmax, norms and the subtraction count nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["VARIANTS", "Attention", "Latent", "variant"]

#: Attentions that `variant` derives from an ordinary one.
VARIANTS = ("softmax", "gated", "v1", "v2")


@dataclass(frozen=True, kw_only=True)
class Latent:
    """Latent keys and values (MLA), from which each head's are projected; one set is stored for all heads.

    Attributes:
        query_rank: width of the latent query; None where queries are projected in one step.
        rank: width of the latent that keys and values come from.
        rope_dim: width of the rotated key that is stored beside it.
        nope_dim: width of a head's key that is not rotated.
        value_dim: width of a head's value.
    """

    query_rank: int | None
    rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Attention of one layer.

    Attributes:
        name: "softmax", "gated", "v1", "v2" or "grouped".
        width: of the residual stream.
        heads: output heads.
        maps: softmax maps, each with a query of its own.
        keys: stored keys of `map_dim`.
        values: stored values of `value_dim`.
        map_dim: width of one map's query and key.
        value_dim: width of a value and of an output head.
        gate: whether a sigmoid gate, as wide as the heads' output, multiplies it.
        lam: where lambda comes from: None (there is none, or it is fixed), "layer" (four vectors of `map_dim`), "head"
            (four a head), "number" (one), "numbers" (one a head) or "token" (a projection of the token).
        lam_bias: whether that projection has a bias.
        head_norm: whether each head's output is normed, with a weight of `value_dim`.
        query_bias, key_bias, value_bias, output_bias: which projections have a bias.
        qk_norm: norms of queries and keys: None, "head" (one weight for all queries, one for all keys) or "all".
        sinks: learned sink scores, one a map.
        latent: latent keys and values; then `keys` and `values` count what the heads see, not what is stored.
    """

    name: str
    width: int
    heads: int
    maps: int
    keys: int
    values: int
    map_dim: int
    value_dim: int
    gate: bool = False
    lam: str | None = None
    lam_bias: bool = False
    head_norm: bool = False
    query_bias: bool = False
    key_bias: bool = False
    value_bias: bool = False
    output_bias: bool = False
    qk_norm: str | None = None
    sinks: bool = False
    latent: Latent | None = None

    def parameters(self) -> dict[str, int]:
        """Parameters of one layer by component; what is not there is left out."""
        found = self._latent_projections() if self.latent else self._projections()
        lam = {
            None: 0,
            "layer": 4 * self.map_dim,
            "head": 4 * self.map_dim * self.heads,
            "number": 1,
            "numbers": self.heads,
            "token": self.heads * (self.width + self.lam_bias),
        }
        norms = {None: 0, "head": 2, "all": self.maps + self.keys}
        found |= {
            "gate": self.gate * self.heads * self.value_dim * (self.width + self.query_bias),
            "lambda": lam[self.lam],
            "head norm": self.head_norm * self.value_dim,
            "query and key norms": norms[self.qk_norm] * self.map_dim,
            "sinks": self.sinks * self.maps,
        }
        return {name: count for name, count in found.items() if count}

    def linear_flops(self, *, decode: bool = False) -> int:
        """FLOPs of one token in the projections, gate and token's lambda: 2 for each weight of their matrices.

        Args:
            decode: see `pair_flops`; each map's query is then taken through the projection of the latent keys.
        """
        bare = replace(self, query_bias=False, key_bias=False, value_bias=False, output_bias=False, lam_bias=False)
        matrices = replace(
            bare, lam=self.lam if self.lam == "token" else None, head_norm=False, qk_norm=None, sinks=False
        )
        norms = (self.latent.query_rank or 0) + self.latent.rank if self.latent else 0
        absorbed = (self.maps - self.keys) * self.latent.nope_dim * self.latent.rank if self.latent and decode else 0
        return 2 * (sum(matrices.parameters().values()) - norms + absorbed)

    def _projections(self) -> dict[str, int]:
        queries, keys = self.maps * self.map_dim, self.keys * self.map_dim
        values, out = self.values * self.value_dim, self.heads * self.value_dim
        return {
            "query": queries * (self.width + self.query_bias),
            "key": keys * (self.width + self.key_bias),
            "value": values * (self.width + self.value_bias),
            "output": (out + self.output_bias) * self.width,
        }

    def _latent_projections(self) -> dict[str, int]:
        latent = self.latent
        assert latent is not None
        queries = self.maps * (latent.nope_dim + latent.rope_dim)
        rank = latent.query_rank
        from_input = (self.width + self.query_bias) * rank + rank if rank else 0
        stored = latent.rank + latent.rope_dim
        return {
            "query": from_input + queries * (rank or self.width),
            "key and value latent": stored * (self.width + self.key_bias) + latent.rank,
            "key and value": latent.rank * self.keys * (latent.nope_dim + latent.value_dim),
            "output": (self.heads * latent.value_dim + self.output_bias) * self.width,
        }

    @property
    def cache_elements(self) -> int:
        """Numbers that one token leaves in the cache of this layer."""
        if self.latent:
            return self.latent.rank + self.latent.rope_dim
        return self.keys * self.map_dim + self.values * self.value_dim

    def pair_flops(self, *, combined: bool = False, decode: bool = False) -> int:
        """FLOPs for one query token and one key that it sees: scores, and the product with the values.

        Args:
            combined: the maps of a head are combined first, so that its values are multiplied once (a decode kernel
                that fuses); otherwise each map has its own product, as in an ordinary attention call.
            decode: latent keys are used as they are stored, the projections of keys and values having been taken into
                the query and the output; otherwise each head's keys and values are at hand.
        """
        key_dim, value_dim = self.map_dim, self.value_dim
        if self.latent and decode:
            key_dim, value_dim = self.latent.rank + self.latent.rope_dim, self.latent.rank
        return 2 * self.maps * key_dim + 2 * (self.heads if combined else self.maps) * value_dim

    def intensity(self, bytes_an_element: float = 2, *, queries: int = 1, combined: bool = False) -> float:
        """FLOPs for each byte of cache that a decode step reads; it depends on neither length nor batch.

        Args:
            bytes_an_element: of the cache.
            queries: tokens a step, more than one with speculation.
        """
        return queries * self.pair_flops(combined=combined, decode=True) / (self.cache_elements * bytes_an_element)


def variant(base: Attention, name: str) -> Attention:
    """Another attention on the same body, with the base's cache.

    Args:
        base: an ordinary one.
        name: one of `VARIANTS`. "v1" halves the heads and doubles the width of the values; "v2" doubles the maps. Sinks
            belong to ordinary attention: the others have none.

    Raises:
        ValueError: an unknown name, or heads that V1 cannot pair.
    """
    if base.name != "softmax":
        raise ValueError(f"base: expected ordinary attention to derive {name} from, got {base.name}")
    if name == "softmax":
        return base
    base = replace(base, sinks=False)
    if name == "gated":
        return replace(base, name=name, gate=True)
    if name == "v2":
        return replace(base, name=name, maps=2 * base.heads, lam="token")
    if name == "v1":
        return _v1(base)
    raise ValueError(f"variant: expected one of {', '.join(VARIANTS)}, got {name!r}")


def _v1(base: Attention) -> Attention:
    if base.latent:
        raise ValueError(
            "variant: V1 needs keys and values of its own for each pair, latent ones (MLA) are shared; use v2"
        )
    if base.heads % 2 or base.keys % 2:
        raise ValueError(
            f"variant: V1 pairs heads, so it needs even numbers of heads and key/value heads, got {base.heads} and "
            f"{base.keys}; v2 works with any"
        )
    return replace(
        base,
        name="v1",
        heads=base.heads // 2,
        values=base.values // 2,
        value_dim=2 * base.value_dim,
        lam="layer",
        head_norm=True,
    )
