"""The trainings of a study: each once, several at a time, every result kept as soon as there is one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from diffattn.errors import UserError
from diffattn.storage import make_folder, read_json, write_json

__all__ = ["Job", "Laboratory", "default_workers"]

RESULT = "result.json"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training with its measures.

    Attributes:
        id: the name of its folder.
        work: "module:function", called with `arguments` and the folder; what it returns is JSON.
        arguments: all that decides the result; JSON.
    """

    id: str
    work: str
    arguments: dict[str, Any]


def default_workers() -> int:
    """One for each core that this process may use, one thread each; on a GPU one, since they would share it."""
    if torch.cuda.is_available():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Laboratory:
    """Runs jobs in a study's folder; one that has its result is not run again.

    Args:
        folder: of the study; a job's files are in `runs/<id>`.
        workers: how many jobs at a time, each in a process of its own; 1 for this process alone.
        progress: say on standard error what has been done.
    """

    def __init__(self, folder: Path, workers: int, progress: bool) -> None:
        self.folder = folder
        self._workers = workers
        self._console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=not progress)

    def run(self, jobs: Sequence[Job], what: str) -> dict[str, Any]:
        """Run the jobs, in order as far as several at a time allow.

        Args:
            jobs: each with an id of its own.
            what: to call them, in the plural.

        Returns:
            Each job's result by its id, as stored.

        Raises:
            KeyboardInterrupt: Ctrl-C; running jobs have then stopped, and go on when they are run again.
            UserError: a worker was killed.
            Exception: what a job raised, after those that run beside it have ended; results that are there stay.
        """
        assert len({job.id for job in jobs}) == len(jobs)
        missing = [job for job in jobs if read_json(self._result(job)) is None]
        done = len(jobs) - len(missing)
        if missing:
            self._console.print(f"{what}: {len(missing)} to run{f', {done} done before' if done else ''}")
        started = time.perf_counter()
        for number, job in enumerate(self._finished(missing), 1):
            seconds = time.perf_counter() - started
            left = seconds / number * (len(missing) - number)
            self._console.print(f"  {job.id} ({done + number} of {len(jobs)}, about {_minutes(left)} left)")
        return {job.id: read_json(self._result(job)) for job in jobs}

    def _result(self, job: Job) -> Path:
        return self.folder / "runs" / job.id / RESULT

    def _finished(self, jobs: Sequence[Job]) -> Iterable[Job]:
        workers = min(self._workers, len(jobs))
        if workers <= 1:
            for job in jobs:
                _do(job, self._result(job))
                yield job
            return
        threads = max(1, torch.get_num_threads() // workers)
        try:
            with ProcessPoolExecutor(workers, get_context("spawn"), _prepare, (threads,)) as pool:
                yield from self._in_pool(pool, iter(jobs), workers)
        except BrokenProcessPool as error:
            raise UserError(
                f"one of {workers} runs at a time was killed, as is done where memory runs out: give --workers "
                f"{workers - 1}; the same command goes on from here"
            ) from error

    def _in_pool(self, pool: ProcessPoolExecutor, jobs: Iterator[Job], workers: int) -> Iterable[Job]:
        """No more is handed over than is worked at: what waits inside the pool would still be run after Ctrl-C."""
        waiting: dict[Future[None], Job] = {}
        while True:
            for job in islice(jobs, workers - len(waiting)):
                waiting[pool.submit(_do_apart, job, self._result(job))] = job
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                future.result()
                yield waiting.pop(future)


def _prepare(threads: int) -> None:
    """In a worker: its share of the threads, and no Ctrl-C between jobs, where it would break the pool."""
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _do_apart(job: Job, result: Path) -> None:
    """In a worker: a job that Ctrl-C stops, one on text with a checkpoint."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _do(job, result)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _do(job: Job, result: Path) -> None:
    module, _, function = job.work.partition(":")
    folder = make_folder(result.parent)
    value = getattr(import_module(module), function)(job.arguments, folder)
    write_json(result, value)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
