"""Scores of one query over its keys, turned into the numbers of attention noise; pure functions on tensors.

Of the keys that the query sees, one is the answer; the first token is the sink, the last the query's own position, and
the others are noise. Unseen keys have the score -inf.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diffattn.evaluation._row_attention import row_weights

__all__ = ["Numbers", "map_numbers", "noise_keys", "signed_numbers"]

#: A name to a tensor `[probes, heads]`.
Numbers = dict[str, Tensor]

_TINY = 1e-300


def noise_keys(scores: Tensor, answer: Tensor) -> Tensor:
    """True for noise keys, bool `[P, H, T]`; scores `[P, H, T]`, answer int `[P]`."""
    positions = torch.arange(scores.shape[-1], device=scores.device)
    special = (positions == 0) | (positions == len(positions) - 1) | (positions == answer[:, None])
    return torch.isfinite(scores) & ~special[:, None]


def map_numbers(scores: Tensor, answer: Tensor, sinks: Tensor | None = None) -> Numbers:
    """The numbers of ordinary attention, in float64.

    Args:
        scores: what softmax takes, `[P, H, T]`; -inf for unseen keys.
        answer: position of the answer, int `[P]`.
        sinks: learned logits `[H]` that take part in the softmax; None for none.

    Returns:
        Each `[P, H]`: `margin`, the answer's score above the mean of the noise; `strength`, the noise's standard
        deviation (divided by its number); `answer_mass`, `sink_mass` and `rest_mass`, which with a learned
        sink's sum to 1;
        `log_signal_to_noise`, ln of the answer's weight over the mean weight of a noise key; `effective_strength`, that
        of the Gaussian noise which would give this ratio, e^(margin - effective_strength^2 / 2); `largest`, whether no
        other key but the first token scores as high. Where the query does not see the answer `margin` is -inf.
    """
    z, noise = scores.double(), noise_keys(scores, answer)
    mean, spread = _moments(z, noise)
    at = _at(z, answer)
    weights = row_weights(z, sinks)
    answer_mass, sink_mass = _at(weights, answer), weights[..., 0]
    log_noise = torch.logsumexp(z.masked_fill(~noise, -torch.inf), -1) - noise.sum(-1).double().log()
    return {
        "margin": at - mean,
        "strength": spread.square().mul(noise).sum(-1).div(noise.sum(-1)).sqrt(),
        "effective_strength": (2 * (log_noise - mean)).clamp(min=0).sqrt(),
        "answer_mass": answer_mass,
        "sink_mass": sink_mass,
        "rest_mass": (weights.sum(-1) - answer_mass - sink_mass).clamp(min=0),
        "log_signal_to_noise": at - log_noise,
        "largest": _is_largest(z, answer),
    }


def signed_numbers(first: Tensor, second: Tensor, lam: Tensor, answer: Tensor) -> Numbers:
    """The numbers of differential attention, softmax(first) - lam softmax(second), in float64.

    Args:
        first, second: scores of the signal map and the noise map, `[P, H, T]`.
        lam: `[P, H]`.
        answer: int `[P]`.

    Returns:
        Each `[P, H]`: `correlation`, Pearson's, of both maps' scores of the noise keys (0 where a map is flat);
        `answer_weight`, signed; `sink_mass` and `rest_mass`, absolute; `absolute_mass` of all keys together, of which
        `negative_mass` is below zero; `log_signal_to_noise`, ln of the answer's absolute weight over the mean absolute
        weight of a noise key; `largest`, whether no other key but the first token has as large a weight.
    """
    noise = noise_keys(first, answer)
    weights = first.double().softmax(-1) - lam.double()[..., None] * second.double().softmax(-1)
    weight, absolute = _at(weights, answer), weights.abs()
    mean_noise = absolute.mul(noise).sum(-1) / noise.sum(-1)
    total = absolute.sum(-1)
    return {
        "correlation": _correlation(first.double(), second.double(), noise),
        "answer_weight": weight,
        "sink_mass": absolute[..., 0],
        "rest_mass": (total - weight.abs() - absolute[..., 0]).clamp(min=0),
        "absolute_mass": total,
        "negative_mass": (-weights).clamp(min=0).sum(-1),
        "log_signal_to_noise": weight.abs().clamp(min=_TINY).log() - mean_noise.clamp(min=_TINY).log(),
        "largest": _is_largest(weights.masked_fill(~torch.isfinite(first), -torch.inf), answer),
    }


def _moments(z: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Mean over the noise keys, and each key's distance from it, 0 for the others."""
    mean = torch.where(noise, z, 0.0).sum(-1) / noise.sum(-1)
    return mean, torch.where(noise, z - mean[..., None], 0.0)


def _correlation(first: Tensor, second: Tensor, noise: Tensor) -> Tensor:
    one, two = _moments(first, noise)[1], _moments(second, noise)[1]
    both = (one.square().sum(-1) * two.square().sum(-1)).sqrt()
    return ((one * two).sum(-1) / both.clamp(min=_TINY)).clamp(-1, 1)


def _at(values: Tensor, answer: Tensor) -> Tensor:
    return values.gather(-1, answer[:, None, None].expand(*values.shape[:2], 1))[..., 0]


def _is_largest(values: Tensor, answer: Tensor) -> Tensor:
    others = values.scatter(-1, answer[:, None, None].expand(*values.shape[:2], 1), -torch.inf)
    return _at(values, answer) > others[..., 1:].amax(-1)
