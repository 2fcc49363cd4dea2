"""Work for a laboratory's jobs, in a module that its processes can import; each call leaves a file."""

from __future__ import annotations

import os
import signal
import time
import uuid

WORK = "job_work:work"


def work(arguments, folder):
    (folder / f"call-{uuid.uuid4().hex}").touch()
    if arguments.get("wait_for"):
        deadline = time.monotonic() + 60
        while not list(folder.parent.glob(arguments["wait_for"])) and time.monotonic() < deadline:
            time.sleep(0.01)
    flag = folder.parent / "go"
    what = None if flag.exists() else arguments.get("do")
    if what == "fail":
        raise RuntimeError("this job fails")
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "interrupt":
        raise KeyboardInterrupt
    if what in ("slow", "wait"):
        time.sleep(2 if what == "slow" else 600)
    return {"square": arguments["number"] ** 2, "half": arguments["number"] / 2}
