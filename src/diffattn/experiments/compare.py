"""Train models that differ only in their attention, measure them alike, and say what came of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import PretrainedConfig, PreTrainedModel

from diffattn.data import Corpus, PreparedData, prepare
from diffattn.data.progress import delayed_progress
from diffattn.evaluation import DecodingConfig, PerplexityConfig, TrainingStepConfig, add_one_unigram, perplexity
from diffattn.experiments.environment import machine, now, versions
from diffattn.experiments.request import CompareRequest, claim_corpus, claim_folder, derive, full_source
from diffattn.experiments.single import check_splits, origin_of, read_corpus
from diffattn.experiments.speed import SpeedConfig, measure_speed
from diffattn.experiments.verdict import compare_runs, sentences
from diffattn.models import DiffTransformerConfig, count_parameters
from diffattn.report import write_report
from diffattn.storage import read_json, to_json, write_json
from diffattn.training import TrainingSettings, load_run, train

__all__ = ["compare"]

_MEASURED = ("tokens", "steps", "seconds", "tokens_per_second", "peak_memory_bytes", "peak_memory_kind", "device")
_SPLITS = ("validation", "test")
_BASELINE_FIELDS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "tie_word_embeddings",
)


def compare(request: CompareRequest, folder: Path, *, command: str, progress: bool = True) -> dict[str, Any]:
    """Run a comparison in `folder`, or what remains of it, and write its `results.json` and `report.html`.

    Corpus and tokenizer are prepared once; every variant sees the same tokens in the same order. What has been
    finished is never done again: killed or stopped at any time, the same call goes on.

    Args:
        request: what to compare.
        folder: for this comparison alone.
        command: kept in the results.
        progress: say on standard error what is being done.

    Returns:
        What `results.json` holds.

    Raises:
        UserError: the folder holds something else, or the corpus cannot be had or is too small.
    """
    folder = Path(folder)
    claim_folder(folder, request.to_dict())
    results = read_json(folder / "results.json")
    if results is None:
        corpus = read_corpus(full_source(request.data), progress)
        claim_corpus(folder, corpus.sha256)
        results = json.loads(to_json(_results(request, corpus, folder, command, progress)))
        write_json(folder / "results.json", results)
    write_report(results, folder / "report.html")
    return results


def _results(request: CompareRequest, corpus: Corpus, folder: Path, command: str, progress: bool) -> dict[str, Any]:
    data = prepare(corpus, vocab_size=request.preset.vocab_size, folder=folder / "data", progress=progress)
    check_splits(data, request.preset.settings.context)
    baseline = request.preset.baseline(data.vocab_size)
    configs = {variant: derive(baseline, variant, request.match_parameters) for variant in request.variants}
    results = {
        **_head(request, baseline, command),
        "corpus": _corpus(corpus, data, progress),
        "runs": _runs(request, configs, data, folder, progress),
        "speed": _speed(request, data, folder, progress),
    }
    results["comparisons"] = compare_runs(results)
    results["verdict"] = sentences(results)
    return results


def _head(request: CompareRequest, baseline: PretrainedConfig, command: str) -> dict[str, Any]:
    return {
        "schema": 1,
        "kind": "compare",
        "created": now(),
        "command": command,
        "versions": versions(),
        "machine": machine(),
        "preset": request.preset.name,
        "seeds": list(range(request.seeds)),
        "variants": list(request.variants),
        "baseline": request.baseline,
        "match_parameters": request.match_parameters,
        # The seed is each run's own.
        "settings": {key: value for key, value in request.preset.settings.to_dict().items() if key != "seed"},
        "evaluation_tokens": request.preset.evaluation_tokens,
        "baseline_config": {name: getattr(baseline, name) for name in _BASELINE_FIELDS},
    }


def _corpus(corpus: Corpus, data: PreparedData, progress: bool) -> dict[str, Any]:
    with delayed_progress("Counting words", len(_SPLITS), enabled=progress) as advance:
        bounds = {}
        for split in _SPLITS:
            bounds[split] = add_one_unigram(corpus, split)
            advance(1)
    return {**data.corpus, "vocab_size": data.vocab_size, "unigram_perplexity_word": bounds}


def _runs(
    request: CompareRequest,
    configs: dict[str, DiffTransformerConfig],
    data: PreparedData,
    folder: Path,
    progress: bool,
) -> list[dict[str, Any]]:
    """All runs, one seed after the other, so that a comparison cut short has whole pairs."""
    wanted = [(seed, variant) for seed in range(request.seeds) for variant in request.variants]
    runs = []
    for number, (seed, variant) in enumerate(wanted, 1):
        label = f"{variant}, seed {seed} ({number} of {len(wanted)})"
        run_folder = folder / f"{variant}-seed{seed}"
        settings = replace(request.preset.settings, seed=seed)
        origin = origin_of(request.preset, variant, full_source(request.data), data, run_folder)
        if progress and (run_folder / "training.json").exists():
            Console(stderr=True).print(f"{label}: trained before", highlight=False)
        trained = train(configs[variant], data, settings, run_folder, progress=progress, label=label, origin=origin)
        measured = _evaluate(request, settings, data, run_folder, progress)
        runs.append({"variant": variant, "seed": seed, **_pick(trained), **measured})
    return runs


def _pick(trained: dict[str, Any]) -> dict[str, Any]:
    return {"training": {name: trained.get(name) for name in _MEASURED}, "curves": trained["curves"]}


def _evaluate(
    request: CompareRequest, settings: TrainingSettings, data: PreparedData, run_folder: Path, progress: bool
) -> dict[str, Any]:
    path = run_folder / "evaluation.json"
    measured = read_json(path)
    if measured is None:
        model = load_run(run_folder).model
        measured = {"parameters": _parameters(model), "evaluation": {}}
        for split in _SPLITS:
            config = PerplexityConfig(
                split=split,
                context=settings.context,
                batch_size=request.preset.evaluation_batch,
                max_tokens=request.preset.evaluation_tokens,
            )
            result = perplexity.measure(model, data, config, progress=progress)
            measured["evaluation"][split] = result.to_dict()
        write_json(path, measured)
    return measured


def _parameters(model: PreTrainedModel) -> dict[str, int]:
    """Parameters in all, of the embedding (once where tied), of all attention layers; and the feed-forward's width."""
    count = count_parameters(model.config)
    return {
        "total": count.total,
        "embedding": count.embedding,
        "attention": count.attention,
        "intermediate_size": model.config.intermediate_size,
    }


def _speed(request: CompareRequest, data: PreparedData, folder: Path, progress: bool) -> dict[str, Any]:
    path = folder / "speed.json"
    measured = read_json(path)
    if measured is None:
        models = {variant: load_run(folder / f"{variant}-seed0").model for variant in request.variants}
        measured = measure_speed(models, request.baseline, data, _speed_config(request, data), progress=progress)
        write_json(path, measured)
    return measured


def _speed_config(request: CompareRequest, data: PreparedData) -> SpeedConfig:
    settings = request.preset.settings
    new_tokens = min(32, settings.context // 4)
    batch_size = min(settings.batch_size, len(data.tokens("train")) // settings.context)
    return SpeedConfig(
        rounds=request.speed_rounds,
        training_step=TrainingStepConfig(context=settings.context, batch_size=batch_size),
        decode=DecodingConfig(prompt_length=min(64, settings.context // 2), new_tokens=new_tokens),
    )
