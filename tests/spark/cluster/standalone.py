"""A standalone Spark cluster of one master and two workers on this machine.

The workers are of two hosts, 127.0.0.1 and 127.0.0.2, for Spark starts no second copy of a task on the host that runs
the first.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

LONGEST_START_SECONDS = 600
_WORKERS = ("127.0.0.1", "127.0.0.2")


@contextmanager
def standalone_cluster(directory: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The URL of a cluster whose processes keep logs and work in ``directory`` and end with this context."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        log = directory / "master.log"
        master = ("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        processes.append(_start(master, log, environment))
        url = _said(log, r"Starting Spark master at (spark://\S+)", processes)
        for host in _WORKERS:
            work = directory / host
            worker = ("worker.Worker", "--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g")
            processes.append(_start((*worker, "--work-dir", str(work), url), directory / f"{host}.log", environment))
        for host in _WORKERS:
            _said(directory / f"{host}.log", "Successfully registered with master", processes)
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(command: tuple[str, ...], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    spark_class = Path(sys.executable).with_name("spark-class")
    whole = [str(spark_class), f"org.apache.spark.deploy.{command[0]}", *command[1:]]
    with log.open("wb") as output:
        return subprocess.Popen(
            whole,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={
                **environment,
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            },
        )


def _said(log: Path, pattern: str, processes: list[subprocess.Popen[bytes]]) -> str:
    """What a process says in its log, once it has: the first group of the pattern, or all of it."""
    end = time.monotonic() + LONGEST_START_SECONDS
    while not (found := re.search(pattern, log.read_text(errors="replace"))):
        if time.monotonic() > end or any(process.poll() is not None for process in processes):
            raise RuntimeError(f"no {pattern!r} in {log}:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.05)
    return found[found.re.groups]
