"""Keeps the harness to its results: no bars, no log, nothing on standard output, no code fetched."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from importlib import import_module
from typing import Any

__all__ = ["quiet_harness"]


@contextmanager
def quiet_harness() -> Iterator[list[str]]:
    """Yield the names of metrics whose code was asked for on the hub, and was not had."""
    wanted: list[str] = []

    def refuse(name: str, *args: Any, **given: Any) -> Any:
        wanted.append(name)
        raise RuntimeError(f"the code of {name} is not fetched")

    bar = import_module("tqdm").tqdm
    start = bar.__init__

    def hidden(self: Any, *args: Any, **given: Any) -> None:
        start(self, *args, **{**given, "disable": True})

    with (
        warnings.catch_warnings(),
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
        _set(bar, "__init__", hidden),
        _set(import_module("evaluate"), "load", refuse),
        # It would ask git, which complains outside of a repository.
        _set(import_module("lm_eval.evaluator"), "get_git_commit_hash", lambda: None),
        ExitStack() as logs,
    ):
        for name in ("lm_eval", "datasets", "huggingface_hub", "transformers"):
            logs.enter_context(_log_level(name))
        warnings.simplefilter("ignore")
        yield wanted


@contextmanager
def _set(place: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


@contextmanager
def _log_level(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
