"""Faults for the Python workers of executors, which import this at their start because it is on their PYTHONPATH.

A fault is a file in the directory ``PAIMON_TEST_FAULTS``, named by its kind and a number. The first attempt of a task
that creates its second data file takes the file away, and meets the fault instead of creating its own:

    fail-<n>    the disk answers with an error
    kill-<n>    the executor's JVM is killed, and this worker with it
    wait-<n>    the worker stands still; ``waiting`` says that it does, and it goes on when there is a file ``go``
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from contextlib import suppress

FAULTS = os.environ.get("PAIMON_TEST_FAULTS", "")
LONGEST_WAIT_SECONDS = 120
_created: dict[int, int] = {}


def meet(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: a new data file is about to be opened."""
    if event != "open" or not isinstance(arguments[0], str) or "/bucket-" not in arguments[0]:
        return
    flags = arguments[2]
    if not isinstance(flags, int) or not flags & os.O_EXCL:
        return
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return
    attempt = context.taskAttemptId()
    _created[attempt] = _created.get(attempt, 0) + 1
    if _created[attempt] == 2:
        for kind, act in (("fail", _fail), ("kill", _kill), ("wait", _wait)):
            if _taken(kind):
                act()


def _taken(kind: str) -> bool:
    for name in sorted(os.listdir(FAULTS)):
        if name.startswith(kind + "-"):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(FAULTS, name))
                return True
    return False


def _fail() -> None:
    raise OSError(errno.EIO, "the disk has an error")


def _kill() -> None:
    with open(f"/proc/{os.getppid()}/stat") as status:
        daemon = status.read().rpartition(")")[2].split()
    os.kill(int(daemon[1]), signal.SIGKILL)
    _stand_still("never")


def _wait() -> None:
    with open(os.path.join(FAULTS, "waiting"), "w"):
        pass
    _stand_still("go")


def _stand_still(until: str) -> None:
    end = time.monotonic() + LONGEST_WAIT_SECONDS
    while not os.path.exists(os.path.join(FAULTS, until)):
        if time.monotonic() > end:
            os._exit(1)
        time.sleep(0.02)


if FAULTS:
    sys.addaudithook(meet)
