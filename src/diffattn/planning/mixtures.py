"""The feed-forward of one layer in families with mixtures of experts, from the fields of a configuration."""

from __future__ import annotations

from dataclasses import replace

from diffattn.planning.body import Experts, FeedForward
from diffattn.planning.fields import Fields

__all__ = ["deepseek", "gpt_oss", "mixtral", "qwen2_moe", "qwen3_moe"]


def mixtral(fields: Fields, layer: int) -> FeedForward:
    return FeedForward(
        width=fields.count("hidden_size"), inner=fields.count("intermediate_size"), experts=_experts(fields)
    )


def gpt_oss(fields: Fields, layer: int) -> FeedForward:
    plain = mixtral(fields, layer)
    assert plain.experts is not None
    return replace(plain, bias=True, experts=replace(plain.experts, router_bias=True))


def qwen3_moe(fields: Fields, layer: int) -> FeedForward:
    width, step = fields.count("hidden_size"), fields.count("decoder_sparse_step", 1)
    if layer in (fields.entries("mlp_only_layers", int) or ()) or (layer + 1) % step:
        return FeedForward(width=width, inner=fields.count("intermediate_size"))
    inner = fields.count("moe_intermediate_size")
    return FeedForward(width=width, inner=inner, experts=_experts(fields))


def qwen2_moe(fields: Fields, layer: int) -> FeedForward:
    plain = qwen3_moe(fields, layer)
    if plain.experts is None:
        return plain
    shared = fields.count("shared_expert_intermediate_size")
    return replace(plain, experts=replace(plain.experts, shared=shared, shared_gate=True))


def deepseek(fields: Fields, layer: int) -> FeedForward:
    width, inner = fields.count("hidden_size"), fields.count("moe_intermediate_size")
    kinds = fields.entries("mlp_layer_types", str, fields.layers)  # newer configurations name each layer's
    dense = kinds[layer] == "dense" if kinds else layer < fields.count("first_k_dense_replace", 0, least=0)
    if dense:
        return FeedForward(width=width, inner=fields.count("intermediate_size"))
    mixture = Experts(
        count=fields.count("n_routed_experts"),
        active=fields.count("num_experts_per_tok", most=fields.count("n_routed_experts")),
        shared=inner * fields.count("n_shared_experts", 0, least=0),
    )
    return FeedForward(width=width, inner=inner, experts=mixture)


def _experts(fields: Fields) -> Experts:
    """Their number is `num_experts` in older configurations."""
    count = fields.count("num_experts" if fields.get("num_experts") is not None else "num_local_experts")
    return Experts(count=count, active=fields.count("num_experts_per_tok", most=count))
