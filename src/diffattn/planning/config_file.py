"""Where a configuration comes from: a config.json, a folder that holds one, or a preset's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diffattn.errors import UserError
from diffattn.planning.presets import PRESETS, find_preset

__all__ = ["read_config", "read_results"]


def read_config(source: str) -> tuple[dict[str, Any], str]:
    """The fields of a configuration and the model's name.

    Args:
        source: the path of a config.json or of a folder with one (a trained run's too), or one of `PRESETS`.

    Raises:
        UserError: there is no such file or preset, or the file holds no JSON object.
    """
    if not source:
        raise UserError("the name of the configuration is empty: name a config.json, a folder with one, or a preset")
    path = Path(source)
    if _is(path.is_dir):
        path = next(
            (found for found in (path / "config.json", path / "model" / "config.json") if found.is_file()), path
        )
        if path.is_dir():
            raise UserError(f"{source} holds no config.json: name one, a folder with one, or a preset")
    if _is(path.exists):
        return _read_object(path, "a model's config.json"), _name(path)
    preset = find_preset(source)
    if preset is None:
        raise UserError(f"there is no file {source} and no preset of that name: the presets are {', '.join(PRESETS)}")
    return preset, source


def read_results(path: Path) -> dict[str, Any]:
    """The results.json that a comparison wrote.

    Raises:
        UserError: there is no such file, or it holds no JSON object.
    """
    if _is(path.is_dir):
        path /= "results.json"
    if not _is(path.exists):
        raise UserError(f"there is no file {path}: name the results.json of a comparison")
    results = _read_object(path, "a comparison's results.json")
    if results.get("kind") not in (None, "compare"):
        raise UserError(f"{path} holds results of another kind ({results['kind']!a}): name a comparison's results.json")
    return results


def _is(asked: Callable[[], bool]) -> bool:
    """What a path is; one that is too long for the system is nothing."""
    try:
        return asked()
    except (OSError, ValueError):
        return False


def _name(path: Path) -> str:
    place = path.resolve().parent
    folder = place.parent if place.name == "model" else place
    return (folder.name or str(path)) if path.name == "config.json" else path.stem


def _read_object(path: Path, what: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}): expected {what}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({error}): expected {what}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} holds no JSON object: expected {what}")
    return value
