"""Attention noise in a trained model, head by head: how far one relevant key stands out of all the others.

Each probe repeats a stretch of its own text, so that the key that an induction head attends to is known
(`repeat_probes`); the scores of the last query over all keys are recorded (`recorded_scores`) and turned into the
signal margin, the noise strength and the masses (`score_numbers`), which the closed form of `planning.noise_model`
extends to what a second, subtracted map could bring (`head_estimates`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch
from transformers import PreTrainedModel

from diffattn.data.progress import delayed_progress
from diffattn.evaluation._setting import check_length, check_vocabulary, mode, require_positive
from diffattn.evaluation.head_estimates import head_result
from diffattn.evaluation.head_results import HeadResult
from diffattn.evaluation.probe_runs import ProbeRuns
from diffattn.evaluation.repeat_probes import Probes, TokenSource, make_probes, shortest_length

__all__ = ["AttentionNoiseConfig", "AttentionNoiseResult", "LengthResult", "Summary", "measure"]


@dataclass(frozen=True, kw_only=True)
class AttentionNoiseConfig:
    """How to measure.

    Attributes:
        lengths: tokens of a probe, each at least 2 span + 2.
        depths: where the repeated stretch stands, 0 at the start of the probe to 1 at its end.
        probes: for each length and depth.
        span: tokens of the repeated stretch.
        split: "train", "validation" or "test".
        batch_size: probes at once; the result does not depend on it.
        seed: of the places in the corpus.
        correlations: for which the best gain of a second map is computed, each -1 or more and below 1.
    """

    lengths: tuple[int, ...]
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    probes: int = 8
    span: int = 8
    split: str = "test"
    batch_size: int = 4
    seed: int = 0
    correlations: tuple[float, ...] = (0.0, 0.5, 0.9)

    def __post_init__(self) -> None:
        require_positive(self, "probes", "span", "batch_size")
        shortest = shortest_length(self.span)
        self._check("lengths", all(length >= shortest for length in self.lengths), f"{shortest} or more tokens")
        self._check("depths", all(0 <= depth <= 1 for depth in self.depths), "numbers from 0 to 1")
        self._check("correlations", all(-1 <= rho < 1 for rho in self.correlations), "numbers from -1 to below 1")
        if self.seed < 0:
            raise ValueError(f"AttentionNoiseConfig: seed must be 0 or more, not {self.seed}")

    def _check(self, name: str, in_range: bool, expected: str) -> None:
        values = getattr(self, name)
        if not values or not in_range or len(set(values)) < len(values):
            raise ValueError(f"AttentionNoiseConfig: {name} must be {expected}, one or more, none twice, not {values}")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The heads of one length that find the answer, and medians over them of their means; None where there are none.

    Attributes:
        heads: how many were measured.
        finding: [layer, head] of those with `finds_answer`.
        answer_mass, rest_mass, signal_to_noise: of the weights that multiply the values, the signed map's where there
            is one.
        margin, strength, effective_strength, margin_needed: of the first map.
        possible_gains: `fitted_gain` for each of the configuration's correlations.
        gain: of the signed map over the first, measured; None for ordinary attention.
    """

    heads: int
    finding: tuple[tuple[int, int], ...]
    answer_mass: float | None
    rest_mass: float | None
    signal_to_noise: float | None
    margin: float | None
    strength: float | None
    effective_strength: float | None
    margin_needed: float | None
    possible_gains: tuple[float, ...] | None
    gain: float | None


@dataclass(frozen=True, kw_only=True)
class LengthResult:
    """One length.

    Attributes:
        length: tokens of a probe.
        probes: of all depths together.
        copied: share of probes for which the model's likeliest next token is the one that followed before.
        summary: of the heads that find the answer.
        heads: one entry a head, in the order of layers; layers that see no probe's answer (sliding windows) are left
            out.
    """

    length: int
    probes: int
    copied: float
    summary: Summary
    heads: tuple[HeadResult, ...]


@dataclass(frozen=True, kw_only=True)
class AttentionNoiseResult:
    """What was measured: the configuration, and one entry for each of its lengths."""

    config: AttentionNoiseConfig
    lengths: tuple[LengthResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def measure(
    model: PreTrainedModel, data: TokenSource, config: AttentionNoiseConfig, *, progress: bool = False
) -> AttentionNoiseResult:
    """Run every probe through the model and describe each head of each attention layer.

    Memory grows with a probe's length, not with its square. The model's mode and attention implementation are put
    back afterwards.

    Args:
        model: a causal language model whose attention goes through transformers' attention interface, on any device;
            the differential models of this package included.
        data: `PreparedData` of the model's tokenizer, or `EncodedCorpus` for a model that was trained elsewhere.
        config: lengths, depths, probes.
        progress: show a bar where it takes longer than two seconds.

    Raises:
        UserError: a length that the model has no positions for, a split that is too short or too repetitive, tokens
            that the model does not know, or an attention whose scores cannot be recorded.
    """
    check_length(model, max(config.lengths), "a probe")
    prepared = {length: _probes(model, data, config, length) for length in config.lengths}
    total = sum(probes.tokens.size for probes in prepared.values())
    with (
        torch.inference_mode(),
        mode(model, training=False),
        delayed_progress("Measuring attention noise", total, enabled=progress) as advance,
    ):
        results = []
        for length, probes in prepared.items():
            runs = ProbeRuns(model)
            for first in range(0, len(probes.tokens), config.batch_size):
                batch = slice(first, first + config.batch_size)
                runs.add(probes.tokens[batch], probes.answers[batch])
                advance(probes.tokens[batch].size)
            results.append(_length_result(runs, length, config))
    return AttentionNoiseResult(config=config, lengths=tuple(results))


def _probes(model: PreTrainedModel, data: TokenSource, config: AttentionNoiseConfig, length: int) -> Probes:
    probes = make_probes(data, config.split, length, config.depths, config.probes, config.span, config.seed)
    check_vocabulary(model, probes.tokens)
    return probes


def _length_result(runs: ProbeRuns, length: int, config: AttentionNoiseConfig) -> LengthResult:
    heads = tuple(
        head_result(head.layer, head.head, head.maps, head.noise_keys, config.correlations) for head in runs.heads()
    )
    return LengthResult(
        length=length,
        probes=len(config.depths) * config.probes,
        copied=runs.copied,
        summary=_summary(heads),
        heads=heads,
    )


def _summary(heads: tuple[HeadResult, ...]) -> Summary:
    found = [head for head in heads if head.finds_answer]

    def middle(value: Callable[[HeadResult], float | None]) -> float | None:
        values = [number for head in found if (number := value(head)) is not None]
        return median(values) if values else None

    possible = zip(*(head.possible_gains for head in found), strict=True)
    gains = [median(gain.fitted_gain for gain in of_one) for of_one in possible]
    return Summary(
        heads=len(heads),
        finding=tuple((head.layer, head.head) for head in found),
        answer_mass=middle(lambda head: head.answer_mass),
        rest_mass=middle(lambda head: (head.signed or head.first).rest_mass.mean),
        signal_to_noise=middle(lambda head: (head.signed or head.first).signal_to_noise.mean),
        margin=middle(lambda head: head.first.margin.mean),
        strength=middle(lambda head: head.first.strength.mean),
        effective_strength=middle(lambda head: head.first.effective_strength.mean),
        margin_needed=middle(lambda head: head.margin_needed),
        possible_gains=tuple(gains) or None,
        gain=middle(lambda head: head.signed.gain.mean if head.signed else None),
    )
