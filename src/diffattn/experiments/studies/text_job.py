"""One training on text with its measures: the work of the language, lambda, scale and stability studies."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import LlamaConfig, PreTrainedModel

from diffattn.data import PreparedData, prepare
from diffattn.evaluation import PerplexityConfig, perplexity
from diffattn.experiments.inspection import first_sequences, inspect_model
from diffattn.experiments.presets import Preset
from diffattn.experiments.single import read_corpus
from diffattn.experiments.studies.rounding import rounded
from diffattn.experiments.studies.variants import variant_config
from diffattn.experiments.studies.watching import watcher
from diffattn.models import DiffTransformerConfig, count_parameters
from diffattn.models.counting import body_of
from diffattn.planning.flops import training_flops
from diffattn.training import TrainingSettings, load_run, train
from diffattn.training.run_folder import CHECKPOINTS, MODEL

__all__ = ["WORK", "arguments_of", "diverged_at", "prepared", "run"]

_MEASURED = 8  # sequences of the validation split
WORK = "diffattn.experiments.studies.text_job:run"


def arguments_of(
    variant: str,
    size: Preset,
    data: PreparedData,
    source: str,
    *,
    seed: int,
    fields: dict[str, Any] | None = None,
    watch: dict[str, Any] | None = None,
    splits: dict[str, int | None] | None = None,
    measures: Sequence[str] = (),
    keep_model: bool = False,
    **changes: Any,
) -> dict[str, Any]:
    """The arguments of `run`.

    Args:
        variant: one of `STUDY_VARIANTS`.
        size: the baseline's size and training.
        data: prepared from `source` with the size's vocabulary.
        source: the corpus, as `load_corpus` takes it.
        seed: of initial weights and token order.
        fields: of the variant's configuration, such as `lambda_init`.
        watch: as `watcher` takes it.
        splits: the splits to measure at the end, each with how many tokens (None: all).
        measures: of the trained model, as `inspect_model` takes them.
        keep_model: keep the trained model in the folder.
        changes: of the training's settings.
    """
    return {
        "variant": variant,
        "fields": fields or {},
        "baseline": size.baseline(data.vocab_size).to_diff_dict(),
        "settings": {**size.settings.to_dict(), **changes, "seed": seed},
        "evaluation_batch": size.evaluation_batch,
        "data": {"source": source, "vocab_size": size.vocab_size, "folder": str(data.folder.parent)},
        "watch": watch or {},
        "splits": splits or {},
        "measures": list(measures),
        "keep_model": keep_model,
    }


def run(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train one variant and measure it.

    Returns:
        `variant`, `seed`, `parameters` and `attention_parameters`, `flops_per_token` (training), `steps`, `tokens`,
        `seconds`, `diverged_at` (the first logged step whose loss is not finite, or None), `curves`, and where
        the training did not diverge `evaluation` by split and `measures` by name.
    """
    data = prepared(**arguments["data"])
    settings = TrainingSettings(**arguments["settings"])
    config = variant_config(
        LlamaConfig(**arguments["baseline"]), arguments["variant"], settings.context, **arguments["fields"]
    )
    watch = watcher(data, settings, arguments["watch"])
    trained = train(config, data, settings, folder, progress=False, watch=watch)
    broke = diverged_at(trained["curves"])
    found: dict[str, Any] = {"diverged_at": broke, "evaluation": {}, "measures": {}}
    if broke is None:
        model = load_run(folder).model
        found["evaluation"] = _evaluate(arguments, data, settings, model)
        if arguments["measures"]:
            batch = first_sequences(data.tokens("validation"), settings.context, _MEASURED)
            found["measures"] = inspect_model(model, batch, arguments["measures"])
    if not arguments["keep_model"]:
        for name in (MODEL, CHECKPOINTS):
            shutil.rmtree(folder / name, ignore_errors=True)
    return rounded({**_about(arguments, config, settings, trained), **found}, 7)


@lru_cache(maxsize=2)
def prepared(source: str, vocab_size: int, folder: str) -> PreparedData:
    """The corpus as tokens, out of what the study prepared; read once a process."""
    return prepare(read_corpus(source, False), vocab_size=vocab_size, folder=Path(folder), progress=False)


def diverged_at(curves: dict[str, Any]) -> int | None:
    """The first logged step whose loss is not finite; None where all are."""
    pairs = zip(curves["step"], curves["loss"], strict=True)
    return next((step for step, loss in pairs if loss is None or not math.isfinite(loss)), None)


def _about(
    arguments: dict[str, Any], config: DiffTransformerConfig, settings: TrainingSettings, trained: dict[str, Any]
) -> dict[str, Any]:
    count = count_parameters(config)
    return {
        "variant": arguments["variant"],
        "seed": settings.seed,
        "fields": arguments["fields"],
        "learning_rate": settings.learning_rate,
        "max_grad_norm": settings.max_grad_norm,
        "parameters": count.total,
        "attention_parameters": count.attention,
        "flops_per_token": training_flops(body_of(config), settings.context),
        **{name: trained[name] for name in ("steps", "tokens", "seconds", "curves")},
    }


def _evaluate(
    arguments: dict[str, Any], data: PreparedData, settings: TrainingSettings, model: PreTrainedModel
) -> dict[str, Any]:
    measured = {}
    for split, tokens in arguments["splits"].items():
        config = PerplexityConfig(
            split=split, context=settings.context, batch_size=arguments["evaluation_batch"], max_tokens=tokens
        )
        measured[split] = perplexity.measure(model, data, config).to_dict()
    return measured
