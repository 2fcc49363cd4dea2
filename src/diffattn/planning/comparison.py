"""The models that a decision compares: the baseline, its differential variants, and controls of equal size."""

from __future__ import annotations

from dataclasses import replace

from diffattn.planning.attention import Attention, variant
from diffattn.planning.body import Model

__all__ = ["LABELS", "comparison", "control", "matched", "matching_inner", "with_variant"]

#: Names of the compared models as a reader sees them.
LABELS = {
    "softmax": "baseline",
    "gated": "gated",
    "v1": "V1",
    "v2": "V2",
    "matched": "V2, matched",
    "control": "softmax control",
    "own": "this model",
}


def with_variant(model: Model, name: str) -> Model:
    """The same body with another attention in every layer.

    Raises:
        ValueError: the heads do not allow it.
    """
    return model.with_attention({base: variant(base, name) for base in _attentions(model)}, name=LABELS[name])


def matching_inner(inner: int, excess: int, per_unit: int) -> int:
    """The multiple of 8 for the feed-forward's inner width that pays for `excess` parameters best.

    `inner` itself stays where no multiple of 8 is nearer.

    Args:
        inner: the present width.
        excess: parameters to give up, in all layers together; below 0 to take on.
        per_unit: parameters that one unit of the width has, in all layers together.

    Raises:
        ValueError: the feed-forward has not so many to give.
    """
    exact = inner - excess / per_unit
    if exact < 8:
        raise ValueError(f"the feed-forward cannot give up {excess:,} parameters: widen intermediate_size ({inner})")
    return min((8 * round(exact / 8), inner), key=lambda size: abs(size - exact))


def matched(model: Model, goal: int, name: str) -> Model:
    """The model with its feed-forward narrowed or widened until it has nearest to `goal` parameters.

    Raises:
        ValueError: the feed-forward has not so many to give.
    """
    feed_forwards = [layer.feed_forward for layer in model.layers]
    narrowest = min(feed_forward.inner for feed_forward in feed_forwards)
    per_unit = sum(feed_forward.per_unit for feed_forward in feed_forwards)
    return model.with_inner(matching_inner(narrowest, model.total - goal, per_unit) - narrowest, name=name)


def control(model: Model) -> Model:
    """Ordinary attention of V2's size: half as many heads again, as in the ablation of V2's authors.

    Where the heads do not allow it, the feed-forward is widened instead.
    """
    goal = with_variant(model, "v2").total
    wider = {base: _more_heads(base) for base in _attentions(model)}
    if None in wider.values():
        return matched(model, goal, LABELS["control"])
    return model.with_attention({base: more for base, more in wider.items() if more}, name=LABELS["control"])


def _more_heads(base: Attention) -> Attention | None:
    heads = 3 * base.heads // 2
    if base.heads % 2 or heads % base.keys or base.latent:
        return None
    return replace(base, heads=heads, maps=heads)


def comparison(model: Model) -> tuple[dict[str, Model], dict[str, str]]:
    """Baseline, V1, V2, V2 with the baseline's parameters, and ordinary attention with V2's; and why one is missing.

    Returns:
        the models by their keys in `LABELS`, and for each that cannot be had the reason.
    """
    found = {"softmax": replace(model, name=LABELS["softmax"])}
    missing = {}
    goal = model.total
    for key, make in (
        ("v1", lambda: with_variant(model, "v1")),
        ("v2", lambda: with_variant(model, "v2")),
        ("matched", lambda: matched(with_variant(model, "v2"), goal, LABELS["matched"])),
        ("control", lambda: control(model)),
        ("gated", lambda: with_variant(model, "gated")),
    ):
        try:
            found[key] = make()
        except ValueError as error:
            missing[key] = str(error)
    return found, missing


def _attentions(model: Model) -> list[Attention]:
    return list(dict.fromkeys(layer.attention for layer in model.layers))
