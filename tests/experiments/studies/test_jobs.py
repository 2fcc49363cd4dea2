"""A laboratory's jobs: each once, alike in one process and in several, and what is left when one goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from diffattn.errors import UserError
from diffattn.experiments.studies.jobs import Job, Laboratory, default_workers
from job_work import WORK

TESTS = Path(__file__).parents[2]
EXPECTED = {f"job{n}": {"square": n**2, "half": n / 2} for n in range(4)}
PROGRAM = """
import sys
from pathlib import Path
from diffattn.experiments.studies.jobs import Job, Laboratory
from job_work import WORK
if __name__ == "__main__":
    jobs = [Job(id=f"job{n}", work=WORK, arguments={"number": n, "do": n and "wait"}) for n in range(4)]
    Laboratory(Path(sys.argv[1]), int(sys.argv[2]), False).run(jobs, "jobs")
"""


def jobs(**special):
    """Four; `special` gives job 1 more arguments."""
    return [Job(id=f"job{n}", work=WORK, arguments={"number": n, **(special if n == 1 else {})}) for n in range(4)]


def calls(folder):
    return {n: len(list((folder / "runs" / f"job{n}").glob("call-*"))) for n in range(4)}


def go(folder):
    (folder / "runs" / "go").touch()


@pytest.mark.parametrize("workers", [1, 2])
def test_each_job_is_run_once(tmp_path, workers):
    assert Laboratory(tmp_path, workers, False).run(jobs(), "jobs") == EXPECTED
    assert list(EXPECTED) == [job.id for job in jobs()]
    assert Laboratory(tmp_path, workers, False).run(jobs(), "jobs") == EXPECTED
    (tmp_path / "runs" / "job2" / "result.json").unlink()
    assert Laboratory(tmp_path, workers, False).run(jobs(), "jobs") == EXPECTED
    assert calls(tmp_path) == {0: 1, 1: 1, 2: 2, 3: 1}


def test_an_error_is_raised_and_what_is_done_stays(tmp_path):
    laboratory = Laboratory(tmp_path, 1, False)
    with pytest.raises(RuntimeError, match="this job fails"):
        laboratory.run(jobs(do="fail"), "jobs")
    assert calls(tmp_path) == {0: 1, 1: 1, 2: 0, 3: 0}
    go(tmp_path)
    assert laboratory.run(jobs(do="fail"), "jobs") == EXPECTED
    assert calls(tmp_path) == {0: 1, 1: 2, 2: 1, 3: 1}


def test_an_error_in_a_worker_starts_no_further_job(tmp_path):
    slow = Job(id="job0", work=WORK, arguments={"number": 0, "wait_for": "job1/call-*", "do": "slow"})
    with pytest.raises(RuntimeError, match="this job fails"):
        Laboratory(tmp_path, 2, False).run([slow, *jobs(do="fail")[1:]], "jobs")
    assert calls(tmp_path) == {0: 1, 1: 1, 2: 0, 3: 0}
    assert (tmp_path / "runs" / "job0" / "result.json").exists()


def test_a_killed_worker_is_one_line_that_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match=r"was killed.*--workers 1; the same command goes on") as caught:
        Laboratory(tmp_path, 2, False).run(jobs(do="die", wait_for="job0/result.json"), "jobs")
    assert "\n" not in str(caught.value)
    go(tmp_path)
    assert Laboratory(tmp_path, 1, False).run(jobs(do="die"), "jobs") == EXPECTED
    assert calls(tmp_path)[0] == 1


def test_ctrl_c_in_a_job_passes_through(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        Laboratory(tmp_path, 1, False).run(jobs(do="interrupt"), "jobs")
    assert calls(tmp_path) == {0: 1, 1: 1, 2: 0, 3: 0}


@pytest.fixture
def program(tmp_path):
    """The process of a laboratory whose job 0 ends and whose others wait, in a group of its own."""
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py"), str(tmp_path), "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def test_ctrl_c_stops_all_workers_at_once(tmp_path, program):
    deadline = time.monotonic() + 300
    while sum(calls(tmp_path).values()) < 3:  # job 0 is done, jobs 1 and 2 wait
        assert program.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to all of them
    assert program.wait(timeout=300) != 0  # the jobs themselves would wait for longer
    assert calls(tmp_path) == {0: 1, 1: 1, 2: 1, 3: 0}
    assert not (tmp_path / "runs" / "job1" / "result.json").exists()


def test_ids_of_their_own(tmp_path):
    with pytest.raises(AssertionError):
        Laboratory(tmp_path, 1, False).run([*jobs(), *jobs()], "jobs")
    assert not (tmp_path / "runs").exists()


def test_progress_says_what_is_left(tmp_path, capsys):
    Laboratory(tmp_path, 1, True).run(jobs()[:1], "jobs")
    Laboratory(tmp_path, 1, True).run(jobs()[:2], "trainings")
    said = capsys.readouterr()
    assert said.out == ""
    assert "jobs: 1 to run\n" in said.err
    assert "trainings: 1 to run, 1 done before\n" in said.err
    assert "job1 (2 of 2, about 0 s left)" in said.err


def test_a_process_for_each_core():
    assert default_workers() >= 1
