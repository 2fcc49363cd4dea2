"""A study's request out of its results, as it was before it became JSON."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

from diffattn.errors import UserError
from diffattn.experiments.studies.study import STUDIES, StudyRequest

__all__ = ["stored_request"]


def stored_request(results: dict[str, Any]) -> StudyRequest:
    """The request that a results file of a study holds.

    Raises:
        UserError: it is of another version of this package, so that a field is unknown, or
            one without a default missing.
    """
    request = results["request"]
    example = next(iter(import_module(STUDIES[request["study"]]).PRESETS.values()))
    try:
        preset = _as(example, request["preset"])
    except (TypeError, KeyError, ValueError) as error:
        reason = f"the results were made by another version of diffattn, whose studies differ ({error})"
        raise UserError(f"{reason}: run their own command, which is in the file") from error
    return StudyRequest(study=request["study"], preset=preset, data=request["data"])


def _as(example: Any, stored: Any) -> Any:
    """What JSON has, in the types of an example of the same kind."""
    if is_dataclass(example) and not isinstance(example, type):
        unknown = stored.keys() - {field.name for field in fields(example)}
        if unknown:
            raise KeyError(min(unknown))
        return type(example)(**{name: _as(getattr(example, name), value) for name, value in stored.items()})
    if isinstance(example, tuple):
        return tuple(_as(example[0] if example else None, value) for value in stored)
    return stored
