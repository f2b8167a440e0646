"""Contestants are long-lived processes: one JSON request a line in, one JSON answer a line out.

The timed part of a request happens inside :func:`measured`, in the contestant itself: seconds of CPU (user and system,
all threads, finished children) and of wall. Everything else, such as making rows, goes unmeasured.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]
LOGS = REPO / "build" / "bench-logs"


class ContestantFailed(Exception):
    """A contestant answered with an error or ended."""


class Contestant:
    """A contestant's process, from the outside."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        LOGS.mkdir(parents=True, exist_ok=True)
        with open(LOGS / f"{name}.log", "a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=REPO
            )

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Its answer: ``cpu`` and ``wall`` in seconds, and what the command adds.

        :raises ContestantFailed: it answered with an error, or ended
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"command": command, **arguments}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": f"the process ended; see {LOGS}"}
        if "error" in answer:
            raise ContestantFailed(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def serve(commands: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """Be a contestant: answer requests until the pipe closes."""
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = commands[request.pop("command")](**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


@contextmanager
def measured(answer: dict[str, Any]) -> Iterator[None]:
    """Put the ``cpu`` and ``wall`` seconds of the block into ``answer``."""
    cpu, wall = _cpu_seconds(), time.perf_counter()
    yield
    answer["cpu"] = _cpu_seconds() - cpu
    answer["wall"] = time.perf_counter() - wall


def _cpu_seconds() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_megabytes() -> float:
    """The greatest resident size of this process so far (Linux; ``ru_maxrss`` would know the parent's, too)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
