"""A study from its request to its report: protocol first, then the runs, then what they say."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from diffattn.data import PreparedData, prepare
from diffattn.errors import UserError
from diffattn.experiments.environment import machine, now, versions
from diffattn.experiments.request import claim_corpus, claim_folder, full_source
from diffattn.experiments.single import check_splits, read_corpus
from diffattn.experiments.studies.jobs import Laboratory
from diffattn.report.experiment_folder import write_experiment
from diffattn.storage import read_json, to_json, write_json

__all__ = ["STUDIES", "StudyRequest", "choose", "run_study"]

#: The studies and their modules, each with PRESETS, TITLE, `protocol`, `collect` and `conclude`.
STUDIES = {
    "needle": "diffattn.experiments.studies.needle",
    "language": "diffattn.experiments.studies.language",
    "stability": "diffattn.experiments.studies.stability",
    "lambda": "diffattn.experiments.studies.lambdas",
    "scale": "diffattn.experiments.studies.scale",
}
_CLAIM = "protocol.json"
_ELAPSED = "elapsed.json"


@dataclass(frozen=True, kw_only=True)
class StudyRequest:
    """What a study was asked for.

    Attributes:
        study: one of `STUDIES`.
        preset: the study's own, with whatever was overridden.
        data: the corpus, as `load_corpus` takes it; not used by studies of generated tasks.
    """

    study: str
    preset: Any
    data: str = "stdlib"

    def to_dict(self) -> dict[str, Any]:
        """The request as JSON has it, the corpus's path in full."""
        return json.loads(to_json({**asdict(self), "data": full_source(self.data)}))

    @property
    def module(self) -> ModuleType:
        return import_module(STUDIES[self.study])

    @property
    def folder_name(self) -> str:
        """The same for the same request, so that the same command goes on where it was stopped."""
        digest = hashlib.sha256(to_json(self.to_dict()).encode()).hexdigest()
        return f"{self.study}-{self.preset.name}-{digest[:8]}"


def choose(study: str, preset: str, data: str | None, **changes: Any) -> StudyRequest:
    """The request for a study's preset with some of its fields changed; None leaves one as it is.

    Raises:
        UserError: an unknown study or preset, a field that this study has not, or a value out of range.
    """
    if study not in STUDIES:
        raise UserError(f"there is no study {study!r}: use {', '.join(STUDIES)}")
    presets = import_module(STUDIES[study]).PRESETS
    if preset not in presets:
        raise UserError(f"there is no preset {preset!r} of {study}: use {' or '.join(presets)}")
    wanted = {name: value for name, value in changes.items() if value is not None}
    chosen = presets[preset]
    if foreign := [name for name in wanted if not hasattr(chosen, name)]:
        raise UserError(f"the study {study} takes no --{foreign[0].replace('_', '-')}")
    try:
        chosen = replace(chosen, **wanted)
    except ValueError as error:
        raise UserError(str(error)) from error
    return StudyRequest(study=study, preset=chosen, **({} if data is None else {"data": data}))


def run_study(
    request: StudyRequest, folder: Path, *, command: str, workers: int = 1, progress: bool = True
) -> dict[str, Any]:
    """Run a study in `folder`, or what remains of it, and write its `results.json`, `report.html` and `charts/`.

    Hypotheses and stopping rule are in the folder's `protocol.json` before anything is run. What has been finished is
    never done again: killed or stopped at any time, the same call goes on.

    Args:
        request: what to study.
        folder: for this study alone.
        command: kept in the results.
        workers: how many runs at a time, see `jobs.Laboratory`.
        progress: say on standard error what is being done.

    Returns:
        What `results.json` holds.

    Raises:
        UserError: the folder holds something else, or the corpus cannot be had or is too small.
    """
    folder, study = Path(folder), request.module
    wanted = request.to_dict()
    protocol = {**study.protocol(request.preset), "written": now()}
    claimed = claim_folder(folder, wanted, _CLAIM, protocol=protocol)
    results = read_json(folder / "results.json")
    if results is None:
        with _timed(folder):
            data = _data(request, folder, progress) if study.TEXT else None
            raw = study.collect(request, Laboratory(folder, workers, progress), data)
        head = _head(request, claimed["protocol"], command, data)
        results = {**head, "workers": workers, "seconds": read_json(folder / _ELAPSED), **raw}
    results |= study.conclude(results)
    results = json.loads(to_json(results))
    write_json(folder / "results.json", results)
    write_experiment(results, folder)
    return results


@contextmanager
def _timed(folder: Path) -> Iterator[None]:
    """Add the seconds of the block to those that the study has taken before, whether it ends or is stopped."""
    started = time.perf_counter()
    try:
        yield
    finally:
        write_json(folder / _ELAPSED, (read_json(folder / _ELAPSED) or 0) + time.perf_counter() - started)


def _head(request: StudyRequest, protocol: dict[str, Any], command: str, data: PreparedData | None) -> dict[str, Any]:
    return {
        "schema": 1,
        "kind": "experiment",
        "experiment": request.study,
        "title": request.module.TITLE,
        "created": now(),
        "command": command,
        "versions": versions(),
        "machine": machine(),
        "preset": request.preset.name,
        "request": {**request.to_dict(), "data": request.data},
        "protocol": protocol,
        "corpus": None if data is None else {**data.corpus, "vocab_size": data.vocab_size},
    }


def _data(request: StudyRequest, folder: Path, progress: bool) -> PreparedData:
    corpus = read_corpus(full_source(request.data), progress)
    claim_corpus(folder, corpus.sha256, _CLAIM)
    size = request.preset.largest
    data = prepare(corpus, vocab_size=size.vocab_size, folder=folder / "data", progress=progress)
    check_splits(data, size.settings.context)
    return data
