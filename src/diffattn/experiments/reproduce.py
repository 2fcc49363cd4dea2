"""A results file run again, and every number that came out otherwise."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from diffattn.errors import UserError
from diffattn.experiments.compare import compare
from diffattn.experiments.noise import NoiseRequest, run_noise
from diffattn.experiments.presets import find_preset
from diffattn.experiments.request import CompareRequest
from diffattn.experiments.studies.stored import stored_request
from diffattn.experiments.studies.study import run_study
from diffattn.storage import read_json
from diffattn.training import TrainingSettings

__all__ = ["differences", "reproduce"]

Results = dict[str, Any]
#: Runs in a folder, with a command, workers and progress.
Again = Callable[[Path, str, int, bool], Results]

#: What no second run repeats: times, speeds, memory, the place and the moment, and what is made from them.
_VOLATILE = {
    "created", "written", "command", "versions", "machine", "seconds", "tokens_per_second", "peak_memory_bytes",
    "speed", "step_ratios", "verdict", "answers", "tables", "charts", "outcomes", "workers", "request", "sentence",
    "p_holm", "outcome",
}  # fmt: skip


def reproduce(path: Path, folder: Path, *, command: str, workers: int = 1, progress: bool = True) -> Results:
    """Run what a results file holds again, in a folder of its own, and compare every number.

    Args:
        path: `results.json` of a comparison, a study or the noise laboratory on drawn scores.
        folder: for the new run; stopped at any time, the same call goes on.
        command: kept in the new results.
        workers: how many runs of a study at a time.
        progress: say on standard error what is being done.

    Returns:
        `kind`, `numbers` (how many values were compared), `differing` (how many of them differ), `largest`, the largest
        relative difference, `differences`, a list of `{"at", "before", "now", "relative"}`, at most 200, those first of
        which one side is no number, then the largest, and `versions` and `machine` of both, where they differ.

    Raises:
        UserError: the file is no results file, or of a kind that cannot be run again.
    """
    before = read_json(path)
    if not isinstance(before, dict) or before.get("kind") not in _AGAIN:
        known = ", ".join(_AGAIN)
        raise UserError(f"{path} holds no results that can be run again: name a results.json of {known}")
    try:
        again = _AGAIN[before["kind"]](before)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{path} was made by another version of diffattn, or is not whole ({type(error).__name__}: {error})"
        raise UserError(f"{reason}: run its own command again, if it has one") from error
    return _compared(before, again(folder, command, workers, progress))


def differences(before: Any, now: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every leaf of two trees with its place, but for what no second run repeats; a leaf that is missing is None."""
    if isinstance(before, dict) or isinstance(now, dict):
        one, other = (tree if isinstance(tree, dict) else {} for tree in (before, now))
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in _VOLATILE:
                yield from differences(one.get(key), other.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(before, list) or isinstance(now, list):
        entries = zip_longest(*(_untimed(tree) if isinstance(tree, list) else [] for tree in (before, now)))
        for place, (old, new) in enumerate(entries):
            yield from differences(old, new, f"{at}[{place}]")
    else:
        yield at, before, now


def _untimed(entries: list[Any]) -> list[Any]:
    """Without comparisons at equal wall time, which are read off at measured speeds; Holm's p values depend on them."""
    return [entry for entry in entries if not isinstance(entry, dict) or entry.get("at") != "equal wall time"]


def _compared(before: Results, now: Results) -> Results:
    leaves = list(differences(before, now))
    found = [
        {"at": at, "before": old, "now": new, "relative": _relative(old, new)} for at, old, new in leaves if old != new
    ]
    found.sort(key=lambda entry: -math.inf if entry["relative"] is None else -entry["relative"])
    sizes = [entry["relative"] for entry in found if entry["relative"] is not None]
    return {
        "kind": before["kind"],
        "numbers": len(leaves),
        "differing": len(found),
        "largest": max(sizes, default=0.0),
        "differences": found[:200],
        **{
            name: {"before": before.get(name), "now": now.get(name)}
            for name in ("versions", "machine")
            if before.get(name) != now.get(name)
        },
    }


def _relative(old: Any, new: Any) -> float | None:
    """The difference over the larger of the two; None where one is no number."""
    numbers = [value for value in (old, new) if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) < 2 or not any(numbers):
        return None
    return abs(numbers[0] - numbers[1]) / max(map(abs, numbers))


def _compare_again(before: Results) -> Again:
    settings = TrainingSettings(**before["settings"])
    preset = replace(find_preset(before["preset"]), settings=settings, evaluation_tokens=before["evaluation_tokens"])
    request = CompareRequest(
        preset=preset,
        variants=tuple(before["variants"]),
        seeds=len(before["seeds"]),
        data=_source(before["corpus"]["name"], before["command"]),
        match_parameters=before["match_parameters"],
    )
    return lambda folder, command, _, progress: compare(request, folder, command=command, progress=progress)


def _source(name: str, command: str) -> str:
    """The corpus as the stored command named it; a comparison keeps no more of it than its name and hash."""
    words = [part for word in shlex.split(command) for part in word.split("=", 1)]
    return words[words.index("--data") + 1] if "--data" in words else name


def _study_again(before: Results) -> Again:
    request = stored_request(before)
    return lambda folder, command, workers, progress: run_study(
        request, folder, command=command, workers=workers, progress=progress
    )


def _noise_again(before: Results) -> Again:
    options = {"lam" if name == "lambda" else name: value for name, value in before["options"].items()}
    if options.keys() - asdict(NoiseRequest()).keys():
        raise UserError("this noise result is of a trained model: give its own command again, it is in the file")
    whole = {**options, "lengths": tuple(options["lengths"]), "seed": before["seed"]}
    request = NoiseRequest(**whole)
    return lambda _folder, command, _workers, progress: run_noise(request, command=command, progress=progress)


_AGAIN: dict[str, Callable[[Results], Again]] = {
    "compare": _compare_again,
    "experiment": _study_again,
    "noise": _noise_again,
}
