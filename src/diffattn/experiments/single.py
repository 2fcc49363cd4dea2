"""One training run by a preset, and the corpus that a trained model is measured on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from diffattn.data import Corpus, EncodedCorpus, PreparedData, load_corpus, prepare
from diffattn.data.progress import delayed_progress
from diffattn.errors import UserError
from diffattn.experiments.presets import Preset
from diffattn.experiments.request import check_variants, derive, full_source
from diffattn.storage import make_folder
from diffattn.training import LoadedRun, Pretrained, load_pretrained, load_run, train

__all__ = ["check_splits", "corpus_of", "load_any", "open_any", "origin_of", "read_corpus", "train_one"]


def train_one(
    preset: Preset,
    variant: str,
    source: str,
    folder: Path,
    *,
    match_parameters: bool = True,
    progress: bool = True,
) -> dict[str, Any]:
    """Prepare the corpus in `folder/data` and train one variant in `folder`; see `training.train`.

    Raises:
        UserError: an unknown variant, a corpus that cannot be had or is too small, a folder with another run.
    """
    check_variants((variant,))
    source = full_source(source)
    corpus = read_corpus(source, progress)
    data = prepare(corpus, vocab_size=preset.vocab_size, folder=make_folder(folder) / "data", progress=progress)
    check_splits(data, preset.settings.context)
    config = derive(preset.baseline(data.vocab_size), variant, match_parameters)
    origin = origin_of(preset, variant, source, data, folder)
    label = f"{variant}, seed {preset.settings.seed}"
    return train(config, data, preset.settings, folder, progress=progress, label=label, origin=origin)


def read_corpus(source: str, progress: bool) -> Corpus:
    """`load_corpus`, with a bar where it takes longer than two seconds."""
    with delayed_progress("Reading the corpus", None, enabled=progress):
        return load_corpus(source)


def check_splits(data: PreparedData, context: int) -> None:
    """Raise a UserError, before anything is trained, for a split that does not fill one context to evaluate on."""
    for split, entry in data.corpus["splits"].items():
        if entry["tokens"] <= context:
            raise UserError(
                f"the {split} split of the corpus has {entry['tokens']:,} tokens, which do not fill one context of "
                f"{context:,}: give more text or a smaller context"
            )


def origin_of(preset: Preset, variant: str, source: str, data: PreparedData, folder: Path) -> dict[str, Any]:
    """What a run's folder keeps, so that `corpus_of` finds the run's corpus again."""
    return {
        "variant": variant,
        "preset": preset.name,
        "data": source,
        "data_folder": os.path.relpath(data.folder.parent, folder),
        "vocab_size": preset.vocab_size,
    }


def corpus_of(run: LoadedRun, source: str | None, scratch: Path, *, progress: bool = True) -> PreparedData:
    """A corpus in the run's own tokens: that of its training, or another.

    Args:
        run: a loaded model with its tokenizer.
        source: as `load_corpus` takes it; None for the one trained on, and `stdlib` where that is not known.
        scratch: a folder to encode into where the run keeps no prepared data.

    Raises:
        UserError: the corpus cannot be had, or the tokenizer is not of the kind that is measured here.
    """
    claim = run.claim or {}
    origin = claim.get("origin") or {}
    corpus = read_corpus(source or origin.get("data") or "stdlib", progress)
    folder = run.folder / origin["data_folder"] if "data_folder" in origin else scratch
    trained_on = (claim.get("corpus") or {}).get("sha256")
    if "vocab_size" in origin and corpus.sha256 == trained_on:
        data = prepare(corpus, vocab_size=origin["vocab_size"], folder=folder, progress=progress)
        if _tokens_alike(data, run):
            return data
    return prepare(corpus, vocab_size=len(run.tokenizer), folder=folder, progress=progress, tokenizer=run.tokenizer)


def load_any(
    name: str, source: str | None, scratch: Path, *, progress: bool = True
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, PreparedData | EncodedCorpus]:
    """A run's model, or any Hugging Face causal model, with its tokenizer and a corpus in its tokens.

    Args:
        name: a run's folder, or what `load_pretrained` takes.
        source: as for `corpus_of`; None for the run's own corpus, and `stdlib` for any other model.
        scratch: a folder to encode into where the run keeps no prepared data.

    Raises:
        UserError: there is no such model, or the corpus cannot be had.
    """
    loaded = open_any(name)
    if isinstance(loaded, LoadedRun):
        return loaded.model, loaded.tokenizer, corpus_of(loaded, source, scratch, progress=progress)
    corpus = read_corpus(full_source(source or "stdlib"), progress)
    return loaded.model, loaded.tokenizer, EncodedCorpus(loaded.tokenizer, corpus)


def open_any(name: str) -> LoadedRun | Pretrained:
    """A run's model and tokenizer, or those of any Hugging Face causal model, see `load_run` and `load_pretrained`."""
    folder = Path(name)
    ours = folder.is_dir() and not (folder / "config.json").is_file()
    return load_run(folder) if ours else load_pretrained(name)


def _tokens_alike(data: PreparedData, run: LoadedRun) -> bool:
    return data.tokenizer.get_vocab() == run.tokenizer.get_vocab()
