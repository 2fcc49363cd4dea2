"""What is reported of each head's attention masses, and of all heads together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import numpy as np

__all__ = ["HeadMass", "Mass", "MassSummary", "head_mass", "summarize"]

_NEEDS_SOURCE = ("answer", "noise", "answer_share", "noise_share")


@dataclass(frozen=True, kw_only=True)
class Mass:
    """How a map's weights are shared out among the keys, means over questions.

    Each key is the answer, else the first token, else the query's own position, else noise. Of a softmax map the four
    masses sum to 1, less what a learned sink takes; of a signed map weights count by their absolute value, but for
    `answer`. None where no question has what is asked for, or the model's numbers are not finite.

    Attributes:
        answer: sum of the answer's weights, signed; over the questions that have a source.
        noise: of all keys that are nothing else; over the same questions, since without a source all is noise.
        sink: of the first token.
        own: of the query's own position.
        absolute: of all keys; 1 for a softmax map.
        negative: of the weights below zero.
        answer_share, noise_share, sink_share: of the absolute mass, the answer's weights by their absolute values too:
            "attention allocated" in Table 3 of Differential Transformer (arXiv:2410.05258).
        entropy: of a softmax map, nats; None for a signed map.
    """

    answer: float | None
    noise: float | None
    sink: float | None
    own: float | None
    absolute: float | None
    negative: float | None
    answer_share: float | None
    noise_share: float | None
    sink_share: float | None
    entropy: float | None


@dataclass(frozen=True, kw_only=True)
class HeadMass:
    """One head; `second`, `signed` and `lam` (the mean of lambda at the queries) are None for ordinary attention.

    Attributes:
        layer, head: counted from 0.
        first: the only map, or the signal map.
        second: the noise map.
        signed: softmax of the first less lam times softmax of the second, whose weights multiply the values.
    """

    layer: int
    head: int
    first: Mass
    second: Mass | None
    signed: Mass | None
    lam: float | None

    @property
    def of_values(self) -> Mass:
        """The map whose weights multiply the values."""
        return self.signed or self.first


@dataclass(frozen=True, kw_only=True)
class MassSummary:
    """Of all heads.

    Attributes:
        heads: how many.
        mean: over heads, of the weights that multiply the values: the signed map's where there is one.
        first, second: the mean of each map; second is None for ordinary attention.
        best: [layer, head] of the head with the largest `answer_share` of these weights.
        best_mass: that head's.
    """

    heads: int
    mean: Mass
    first: Mass
    second: Mass | None
    best: tuple[int, int] | None
    best_mass: Mass | None


def head_mass(layer: int, head: int, maps: dict[str, dict[str, np.ndarray]], has_source: np.ndarray) -> HeadMass:
    """From one value a question, float64 `[questions]`; `has_source` bool `[questions]`."""
    return HeadMass(
        layer=layer,
        head=head,
        first=_mass(maps["first"], has_source),
        second=_mass(maps["second"], has_source) if "second" in maps else None,
        signed=_mass(maps["signed"], has_source) if "signed" in maps else None,
        lam=_mean(maps["signed"]["lam"]) if "signed" in maps else None,
    )


def summarize(heads: tuple[HeadMass, ...]) -> MassSummary:
    seconds = [head.second for head in heads if head.second is not None]
    ranked = [head for head in heads if head.of_values.answer_share is not None]
    best = max(ranked, key=lambda head: head.of_values.answer_share or 0.0, default=None)
    return MassSummary(
        heads=len(heads),
        mean=_over_heads([head.of_values for head in heads]),
        first=_over_heads([head.first for head in heads]),
        second=_over_heads(seconds) if seconds else None,
        best=None if best is None else (best.layer, best.head),
        best_mass=None if best is None else best.of_values,
    )


def _mass(numbers: dict[str, np.ndarray], has_source: np.ndarray) -> Mass:
    means = {
        field.name: _mean(numbers[field.name][has_source] if field.name in _NEEDS_SOURCE else numbers[field.name])
        for field in fields(Mass)
        if field.name in numbers
    }
    return Mass(**{"entropy": None, **means})


def _over_heads(masses: list[Mass]) -> Mass:
    columns = {name: [asdict(mass)[name] for mass in masses] for name in asdict(masses[0])}
    return Mass(**{name: None if None in values else _mean(np.array(values)) for name, values in columns.items()})


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if values.size and np.isfinite(values).all() else None
