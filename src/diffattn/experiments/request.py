"""What a comparison was asked for, and whether a folder holds that very comparison."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig

from diffattn.errors import UserError
from diffattn.experiments.presets import Preset
from diffattn.models import VARIANTS, DiffTransformerConfig
from diffattn.storage import make_folder, read_json, to_json, write_json
from diffattn.training.run_folder import refuse_difference, refuse_strangers

__all__ = ["CompareRequest", "check_variants", "claim_corpus", "claim_folder", "derive", "full_source"]

CLAIM = "compare.json"


@dataclass(frozen=True, kw_only=True)
class CompareRequest:
    """Everything that decides what a comparison computes.

    Attributes:
        preset: size and training, with whatever was overridden.
        variants: attentions to compare, at least one.
        seeds: how many seeds, counted from 0.
        data: the corpus, as `load_corpus` takes it.
        match_parameters: narrow or widen each variant's feed-forward until it has the baseline's parameters.
        speed_rounds: samples of each time.

    Raises:
        UserError: an unknown or repeated variant, or no seed.
    """

    preset: Preset
    variants: tuple[str, ...] = ("softmax", "v1", "v2")
    seeds: int = 1
    data: str = "stdlib"
    match_parameters: bool = True
    speed_rounds: int = 8

    def __post_init__(self) -> None:
        check_variants(self.variants)
        if self.seeds < 1:
            raise UserError(f"the number of seeds must be at least 1, not {self.seeds}")

    @property
    def baseline(self) -> str:
        """What the others are compared with: softmax, or the first where it is not among them."""
        return "softmax" if "softmax" in self.variants else self.variants[0]

    def to_dict(self) -> dict[str, Any]:
        """The request as JSON has it, the corpus's path in full."""
        return {**asdict(self), "variants": list(self.variants), "data": full_source(self.data)}

    @property
    def folder_name(self) -> str:
        """The same for the same request, so that the same command goes on where it was stopped."""
        digest = hashlib.sha256(to_json(self.to_dict()).encode()).hexdigest()
        return f"compare-{self.preset.name}-{digest[:8]}"


def full_source(data: str) -> str:
    """The corpus by name, or by its full path, so that it is found from another working directory too."""
    return data if data in ("stdlib", "wikitext-2") else str(Path(data).absolute())


def derive(baseline: PretrainedConfig, variant: str, match_parameters: bool) -> DiffTransformerConfig:
    """The variant's configuration: the baseline's but for its attention, and the feed-forward where matched."""
    return DiffTransformerConfig.from_baseline(baseline, attention=variant, match_parameters=match_parameters)


def check_variants(variants: tuple[str, ...], known: tuple[str, ...] = VARIANTS) -> None:
    """Raise a UserError for an unknown or repeated variant, or none at all; the message lists the known ones."""
    unknown = [variant for variant in variants if variant not in known]
    if unknown or not variants:
        what = f"there is no variant {unknown[0]!r}" if unknown else "no variant was named"
        raise UserError(f"{what}: use some of {', '.join(known)}")
    if len(set(variants)) < len(variants):
        raise UserError(f"a variant is named twice in {', '.join(variants)}: name each once")


def claim_folder(folder: Path, wanted: dict[str, Any], name: str = CLAIM, **beside: Any) -> dict[str, Any]:
    """Write into the folder what it is for, or refuse one that is for something else.

    Args:
        folder: of a comparison or study.
        wanted: the request as JSON has it.
        name: of the file that says it.
        beside: kept with the request when it is written first.

    Returns:
        What the file holds.

    Raises:
        UserError: it holds another request, or something else, or cannot be written.
    """
    stored = read_json(make_folder(folder) / name)
    if stored is None:
        refuse_strangers(folder)
        write_json(folder / name, {"schema": 1, "request": wanted, "corpus_sha256": None, **beside})
        return read_json(folder / name)
    refuse_difference(folder, _flat(wanted), _flat(stored.get("request") or {}))
    return stored


def claim_corpus(folder: Path, sha256: str, name: str = CLAIM) -> None:
    """Write the corpus's hash beside the request, or refuse to go on with a corpus that has changed since.

    Raises:
        UserError: what the folder holds began with another text.
    """
    stored = read_json(folder / name)
    if stored["corpus_sha256"] not in (None, sha256):
        raise UserError(
            f"the corpus has changed since what {folder} holds began: give another folder, or delete this one"
        )
    write_json(folder / name, {**stored, "corpus_sha256": sha256})


def _flat(tree: dict[str, Any]) -> dict[str, Any]:
    """Nested entries beside the others, each named by its own key, or by its path where another has that key too."""
    leaves = dict(_leaves(tree))
    keys = Counter(path[-1] for path in leaves)
    return {path[-1] if keys[path[-1]] == 1 else ".".join(path): value for path, value in leaves.items()}


def _leaves(tree: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from (((key, *path), leaf) for path, leaf in _leaves(value))
        else:
            yield (key,), value
