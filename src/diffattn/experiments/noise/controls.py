"""The cheap controls: other ways to lower the noise floor, on the very scores that the subtraction gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from diffattn.experiments.noise.draws import Maps, attend
from diffattn.experiments.noise.quantities import closed_form
from diffattn.experiments.noise.settings import NoiseRequest
from diffattn.planning.noise_model import NoiseModel, best_sharpening

__all__ = ["Control", "controls", "sink_score", "together"]

Closed = dict[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Control:
    """One control.

    Attributes:
        name: its name in results.
        parameter: the number it takes: a factor on the scores, the sink's score, the gate, keys kept.
        weights: from keys `[draws, 1, keys, 2]` to weights `[draws, keys]` of the same keys.
        closed: its closed form; empty where there is none.
        holds, output_holds: whether that of a position and of the output may be trusted; None where there is none.
    """

    name: str
    parameter: float
    weights: Callable[[Tensor], Tensor]
    closed: Closed
    holds: bool | None
    output_holds: bool | None


def controls(request: NoiseRequest) -> list[Control]:
    """Best temperature, log-n scaling, a sink, a gate and top-k for the setting of `request`.

    Each works on the first map alone, as it would in ordinary attention.
    """
    model = request.model
    log_n = math.log(model.length) / math.log(request.base_length)
    return [
        _scaled("temperature", model, best_sharpening(model.margin, model.strength)),
        _scaled("log_n", model, log_n),
        _sink(model),
        _gate(model, request.gate),
        _top_k(min(request.top_k, model.length)),
    ]


def together(chosen: Sequence[Control]) -> Maps:
    """The maps of all of them from the same keys, after softmax's own."""

    def maps(keys: Tensor) -> Iterator[Tensor]:
        yield _softmax(keys)
        for control in chosen:
            yield control.weights(keys)

    return maps


def sink_score(model: NoiseModel) -> float:
    """The logarithm of the sum that the noise is expected to add to softmax's denominator."""
    return model.margin + math.log(model.noise_mass() / model.match_weight())


def _softmax(keys: Tensor, factor: float = 1.0, mask: Tensor | None = None) -> Tensor:
    return attend(keys, factor=factor, mask=mask).signal[:, 0, 0]


def _scaled(name: str, model: NoiseModel, factor: float) -> Control:
    scaled = replace(model, margin=factor * model.margin, strength=factor * model.strength)
    closed = _over(closed_form(scaled, 0.0), closed_form(model, 0.0))
    return Control(
        name=name,
        parameter=factor,
        weights=lambda keys: _softmax(keys, factor),
        closed=closed,
        holds=scaled.holds,
        output_holds=scaled.output_holds,
    )


def _sink(model: NoiseModel) -> Control:
    """An extra key with a fixed score and a value of 0: it takes weight from match and noise alike."""
    score = sink_score(model)

    def weights(keys: Tensor) -> Tensor:
        sink = keys.new_full((len(keys), 1, 1, 2), score)
        return _softmax(torch.cat([keys, sink], dim=2))[:, :-1]

    closed = _times(closed_form(model, 0.0), 1 / (1 + model.noise_mass()))
    # A sink takes a little more in draws with less noise: its gain is 1 only as far as the noise's sum is its mean.
    closed |= {"gain": None, "output_gain": None}
    trust = {"holds": model.holds, "output_holds": model.output_holds}
    return Control(name="sink", parameter=score, weights=weights, closed=closed, **trust)


def _gate(model: NoiseModel, gate: float) -> Control:
    """A factor on the output, and so on every weight."""
    return Control(
        name="gate",
        parameter=gate,
        weights=lambda keys: gate * _softmax(keys),
        closed=_times(closed_form(model, 0.0), gate),
        holds=model.holds,
        output_holds=model.output_holds,
    )


def _top_k(kept: int) -> Control:
    """The keys with the largest scores; the others' weights are 0, and count as positions all the same."""

    def weights(keys: Tensor) -> Tensor:
        scores = keys[:, 0, :, 0]
        largest = scores.topk(kept, dim=-1).indices
        return _softmax(keys, mask=torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, largest, True))

    return Control(name="top_k", parameter=kept, weights=weights, closed={}, holds=None, output_holds=None)


def _times(closed: Closed, share: float) -> Closed:
    """Every weight times `share`, which no ratio of weights notices."""
    weights = ("match_weight", "noise_mass", "negative_mass", "row_sum")
    return {name: value * share if value is not None and name in weights else value for name, value in closed.items()}


def _over(closed: Closed, softmax: Closed) -> Closed:
    """With the gains over the unscaled softmax instead of the scaled one."""
    found = dict(closed)
    for gain, name in (("gain", "signal_to_noise"), ("output_gain", "output_signal_to_noise")):
        above, below = closed[name], softmax[name]
        found[gain] = above / below if above is not None and below else None
    return found
