"""The laboratory on a trained model: its own scores in place of drawn ones, head by head."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from transformers import PreTrainedModel

from diffattn.data import EncodedCorpus
from diffattn.errors import UserError
from diffattn.evaluation import attention_noise
from diffattn.evaluation.attention_noise import AttentionNoiseConfig, LengthResult
from diffattn.evaluation.head_results import HeadResult
from diffattn.evaluation.repeat_probes import TokenSource, shortest_length
from diffattn.experiments.environment import machine, now, versions
from diffattn.experiments.noise.answers_trained import answers_trained
from diffattn.experiments.request import full_source
from diffattn.experiments.single import corpus_of, read_corpus
from diffattn.storage import to_json
from diffattn.training import load_pretrained, load_run

__all__ = ["TrainedRequest", "run_trained"]

_LONGEST_BY_DEFAULT = 2048


@dataclass(frozen=True, kw_only=True)
class TrainedRequest:
    """What to measure on which model.

    Attributes:
        run: a folder of ours, or None.
        model: any Hugging Face causal model, a folder or a name on the hub, or None.
        data: a corpus as `load_corpus` takes it; None for the run's own, or the standard library's source.
        lengths: tokens of a probe; None for powers of two that the model has positions for, up to 2,048.
        depths, probes, span, split, seed: see `AttentionNoiseConfig`.

    Raises:
        UserError: not exactly one of `run` and `model`.
    """

    run: Path | None = None
    model: str | None = None
    data: str | None = None
    lengths: tuple[int, ...] | None = None
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    probes: int = 8
    span: int = 8
    split: str = "test"
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.run is None) == (self.model is None):
            raise UserError("name one of --run and --model")

    def config(self, model: PreTrainedModel) -> AttentionNoiseConfig:
        """The measure's configuration for this model."""
        chosen = self.lengths or _lengths_for(model, self.span)
        try:
            return AttentionNoiseConfig(
                lengths=chosen,
                depths=self.depths,
                probes=self.probes,
                span=self.span,
                split=self.split,
                seed=self.seed,
            )
        except ValueError as error:
            raise UserError(str(error).removeprefix("AttentionNoiseConfig: ")) from error


def run_trained(request: TrainedRequest, *, command: str, progress: bool = True) -> dict[str, Any]:
    """Measure every head of the model, and say in words what came of it.

    Args:
        request: which model, text and probes.
        command: kept in the results.
        progress: show bars on standard error where they take longer than two seconds.

    Returns:
        What `results.json` holds: as for drawn scores, with `heads`, a row for each length, layer and head; `lengths`,
        medians over the heads that find the answer; `followed`, those of the shortest length at every length; and
        `measured`, all with its intervals.
    """
    with tempfile.TemporaryDirectory() as scratch:
        model, data = _load(request, Path(scratch), progress)
        config = request.config(model)
        measured = attention_noise.measure(model, data, config, progress=progress)
    results = {
        "schema": 1,
        "kind": "noise",
        "created": now(),
        "command": command,
        "versions": versions(),
        "machine": machine(),
        "options": {**_options(request), "lengths": list(config.lengths)},
        "seed": request.seed,
        "heads": [_row(length.length, head) for length in measured.lengths for head in length.heads],
        "lengths": [_of_length(length) for length in measured.lengths],
        "followed": _followed(measured.lengths),
        "measured": measured.to_dict()["lengths"],
    }
    results["answers"] = answers_trained(results)
    return json.loads(to_json(results))


def _load(request: TrainedRequest, scratch: Path, progress: bool) -> tuple[PreTrainedModel, TokenSource]:
    if request.run is not None:
        run = load_run(request.run)
        return run.model, corpus_of(run, request.data, scratch, progress=progress)
    loaded = load_pretrained(str(request.model))
    corpus = read_corpus(full_source(request.data or "stdlib"), progress)
    return loaded.model, EncodedCorpus(loaded.tokenizer, corpus)


def _lengths_for(model: PreTrainedModel, span: int) -> tuple[int, ...]:
    longest = min(getattr(model.config, "max_position_embeddings", None) or _LONGEST_BY_DEFAULT, _LONGEST_BY_DEFAULT)
    found = [2**power for power in range(5, 12) if shortest_length(span) <= 2**power <= longest]
    if not found:
        raise UserError(f"the model has {longest} positions, too few for probes of span {span}: give a smaller --span")
    return tuple(found)


def _options(request: TrainedRequest) -> dict[str, Any]:
    given = {name: value for name, value in asdict(request).items() if value is not None and name != "seed"}
    return {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}


def _row(length: int, head: HeadResult) -> dict[str, Any]:
    """A head's means; of the signed map where there is one."""
    used, signed = head.signed or head.first, head.signed
    row = {
        "length": length,
        "layer": head.layer,
        "head": head.head,
        "finds_answer": head.finds_answer,
        "answer_mass": head.answer_mass,
        "sink_mass": used.sink_mass.mean,
        "rest_mass": used.rest_mass.mean,
        "margin": head.first.margin.mean,
        "margin_needed": head.margin_needed,
        "strength": head.first.strength.mean,
        "effective_strength": head.first.effective_strength.mean,
        "signal_to_noise": used.signal_to_noise.mean,
        "closed_signal_to_noise": used.closed_signal_to_noise.mean,
        "closed_form_holds": head.closed_form_holds,
        "possible_gains": [
            {"correlation": gain.correlation, "gain": gain.fitted_gain, "lambda": gain.fitted_lam}
            for gain in head.possible_gains
        ],
    }
    if signed is None or head.second is None:
        return row
    return row | {
        "negative_mass": signed.negative_mass.mean,
        "correlation": signed.correlation.mean,
        "lambda": signed.lam.mean,
        "gain": signed.gain.mean,
        "first_rest_mass": head.first.rest_mass.mean,
        "second_margin": head.second.margin.mean,
    }


def _of_length(result: LengthResult) -> dict[str, Any]:
    """The summary of one length, and over the heads that find the answer what training made of the second map."""
    found = [head for head in result.heads if head.finds_answer]
    signed = [head.signed for head in found if head.signed is not None]
    summary = {**asdict(result.summary), "finding": len(found)}
    medians = {"correlation": [one.correlation.mean for one in signed], "lambda": [one.lam.mean for one in signed]}
    return {
        "length": result.length,
        "probes": result.probes,
        "copied": result.copied,
        **summary,
        **{name: median(values) if values else None for name, values in medians.items()},
    }


def _followed(lengths: tuple[LengthResult, ...]) -> list[dict[str, Any]]:
    """Medians, at every length, over the heads that find the answer at the shortest."""
    shortest = min(lengths, key=lambda result: result.length)
    places = {(head.layer, head.head) for head in shortest.heads if head.finds_answer}
    rows = []
    for result in sorted(lengths, key=lambda result: result.length):
        kept = [_row(result.length, head) for head in result.heads if (head.layer, head.head) in places]
        if kept:
            names = ("answer_mass", "rest_mass", "sink_mass", "margin", "margin_needed", "effective_strength")
            medians = {name: median(row[name] for row in kept) for name in names}
            rows.append({"length": result.length, "heads": len(kept), **medians})
    return rows
