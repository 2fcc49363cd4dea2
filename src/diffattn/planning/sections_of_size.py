"""What the variants of a model weigh and cost, as sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from diffattn.planning.comparison import LABELS
from diffattn.planning.document import Section, Table, amount, at_context

__all__ = ["bounds", "decode", "memory", "parameters"]

Plan = Mapping[str, Any]


def parameters(plan: Plan) -> Iterator[Section]:
    """Component by component, of one layer and of the model."""
    for title, key in (("Parameters of a layer (the last)", "layer"), ("Parameters of the model", "whole")):
        yield Section(title=title, table=_counts(plan, key), after=_missing(plan) if key == "whole" else ())


def _models(plan: Plan) -> dict[str, Any]:
    """The compared models' sizes; a gated one only where it is asked for."""
    return {key: size for key, size in plan["sizes"].items() if key != "gated" or plan["asked"]["variant"] == key}


def _counts(plan: Plan, key: str) -> Table:
    sizes = _models(plan)
    names = list(dict.fromkeys(name for size in sizes.values() for name in size[key]))
    rows = [(name, *(f"{size[key].get(name, 0):,}" for size in sizes.values())) for name in names]
    if key == "layer":
        rows.append(("attention together", *(f"{size['layer_attention']:,}" for size in sizes.values())))
    totals = [sum(size[key].values()) for size in sizes.values()]
    rows.append(("all", *(f"{total:,}" for total in totals)))
    rows.append(("more than baseline", *(f"{total - totals[0]:+,}" for total in totals)))
    if key == "whole":
        rows.append(("feed-forward width", *(f"{size['inner']:,}" for size in sizes.values())))
    return Table(columns=("component", *map(_label, sizes)), rows=tuple(rows))


def _missing(plan: Plan) -> tuple[str, ...]:
    return tuple(f"No {LABELS[key]}: {why}." for key, why in plan["missing"].items())


def memory(plan: Plan) -> Section:
    """Weights, cache, and the FLOPs of prefill and training."""
    sizes = _models(plan)
    rows = [
        ("weights", *(amount(size["weight_bytes"], "B") for size in sizes.values())),
        ("cache, bytes a token", *(f"{size['cache_bytes_a_token']:,}" for size in sizes.values())),
    ]
    for context in plan["asked"]["contexts"]:
        at = f"at {context:,}"
        rows += [
            (f"cache {at}", *(amount(at_context(size["cache_bytes"], context), "B") for size in sizes.values())),
            (f"prefill {at}", *(amount(at_context(size["prefill_flops"], context), "FLOP") for size in sizes.values())),
            (
                f"training a token {at}",
                *(amount(at_context(size["training_flops_a_token"], context), "FLOP") for size in sizes.values()),
            ),
        ]
    return Section(
        title="Memory and arithmetic",
        table=Table(columns=("", *map(_label, sizes)), rows=tuple(rows)),
        after=(f"Weights and cache in {plan['asked']['dtype']}.",),
    )


def decode(plan: Plan) -> Section:
    """A row for each context and batch: the baseline's step, and the others' times as multiples of it."""
    asked = plan["asked"]
    steps = {(row["context"], row["batch"], row["model"], row["combined"]): row for row in plan["decode"]}
    others = [key for key in _models(plan) if key != "softmax"]
    rows = []
    for context in asked["contexts"]:
        for batch in asked["batches"]:
            base, ours = (steps[context, batch, key, False] for key in ("softmax", asked["variant"]))
            ratios = [f"{steps[context, batch, key, False]['ratio']:.3f}" for key in others]
            rows.append((f"{context:,} x {batch}", *_step(base, ours), *ratios, _FITS[ours["fits"]]))
    name = _label(asked["variant"])
    columns = ("context x batch", "FLOPs", f"{name}'s", "bytes", f"{name}'s", "FLOP/B", f"{name}'s", "ms")
    return Section(
        title="Decoding, by the roofline",
        before=(_decode_text(asked),),
        table=Table(columns=(*columns, *(f"{_label(key)}: time" for key in others), "fits"), rows=tuple(rows)),
        after=("Times of the others are multiples of the baseline's. Fits: weights and cache on one such machine.",),
    )


_FITS = {True: "yes", False: "no", None: "not known"}


def _step(base: Mapping[str, Any], ours: Mapping[str, Any]) -> tuple[str, ...]:
    cells = [amount(row[key], unit) for key, unit in (("flops", "FLOP"), ("bytes", "B")) for row in (base, ours)]
    return (*cells, f"{base['intensity']:.3g}", f"{ours['intensity']:.3g}", f"{1000 * base['seconds']:.4g}")


def _decode_text(asked: Mapping[str, Any]) -> str:
    return (
        f"A step of {asked['queries']} token(s) a sequence on {asked['hardware']['name']} in {asked['dtype']}: the "
        "least time that arithmetic and memory allow, linear parts and attention one after the other, each map with "
        "its own product."
    )


def bounds(plan: Plan) -> Section:
    """Up to how many heads a key/value head and tokens a step attention is bound by memory."""
    bounds = plan["bounds"]
    rows = tuple(
        (
            _label(key) + (", maps combined" if entry["combined"] else ""),
            f"{entry['intensity']:.4g}",
            "memory" if entry["memory_bound"] else "arithmetic",
            f"{entry['queries']:.3g}",
            "-" if entry["heads_per_kv_head"] is None else f"{entry['heads_per_kv_head']:.3g}",
        )
        for key, entries in bounds.items()
        if key in _models(plan)
        for entry in entries
        if not entry["combined"] or entry["intensity"] != entries[0]["intensity"]
    )
    columns = ("attention of", "FLOP/B", "bound by", "until tokens a step", "until heads a KV head")
    text = f"Attention is bound by memory below the machine's {bounds['ridge']:.4g} FLOPs a byte."
    after = ("The intensity of attention depends on neither context nor batch. Combined: the maps before the product.",)
    title = "When decoding is no longer free"
    return Section(title=title, before=(text,), table=Table(columns=columns, rows=rows), after=after)


def _label(key: str) -> str:
    return LABELS.get(key, key)
