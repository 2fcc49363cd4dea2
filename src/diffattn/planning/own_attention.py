"""The differential attention that a configuration itself has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from diffattn.planning.attention import Attention, variant
from diffattn.planning.fields import Fields

__all__ = ["own_attention"]

#: What `Attention.lam` is for each `lambda_granularity`, the default first.
_LAMBDA: dict[str, dict[str, str | None]] = {
    "v1": {"layer": "layer", "head": "head", "token": "token", "fixed": None},
    "v2": {"token": "token", "head": "numbers", "layer": "number", "fixed": None},
}


def own_attention(config: Mapping[str, Any], base: Attention) -> Attention | None:
    """The differential attention that the configuration itself has, or None where it is ordinary.

    Raises:
        ValueError: its lambda is of no granularity that we know.
    """
    fields = Fields(config)
    kind = fields.kind
    if kind == "motif":
        return _grouped(fields, base)
    if kind == "diffllama":  # V1 with a norm that has no weight
        return replace(variant(base, "v1"), head_norm=False)
    if fields.own_attention == "softmax":
        return None
    own = variant(base, fields.own_attention)
    if own.lam is None:
        return own
    sources = _LAMBDA[own.name]
    lam = sources[fields.choice("lambda_granularity", list(sources))]
    if own.name == "v1":
        return replace(own, lam=lam, lam_bias=lam == "token", head_norm=fields.flag("head_norm", default=True))
    return replace(own, lam=lam, lam_bias=lam == "token" and fields.flag("lambda_bias"))


def _grouped(fields: Fields, base: Attention) -> Attention:
    """Grouped differential attention (arXiv:2510.06949): noise maps shared by several heads, values of double width."""
    return replace(
        base,
        name="grouped",
        maps=base.heads + fields.count("num_noise_heads"),
        values=base.keys // 2,
        value_dim=2 * base.map_dim,
        lam="layer",
        head_norm=True,
    )
