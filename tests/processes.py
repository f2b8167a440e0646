"""Processes for tests: forked from a server that has imported what they need, so that each starts at once, and waited
for no longer than any machine takes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

# Nothing that is well takes so long, however busy the machine is.
LONGEST_SECONDS = 600.0
# Pytest, because the tests import it; pandas, because pyarrow looks whether it is there when it makes arrays of lists.
_PRELOADED = [
    "pandas",
    "pytest",
    "paimon_spark.table",
    "paimon_spark.metadata.expiration",
    "paimon_spark.metadata.index_store",
    "paimon_spark.compact.compaction",
    "paimon_spark.compact.deletion_maintainer",
    "fastavro",
    "fastavro.write",
    "backports.zstd",
    "pyarrow.parquet",
    "pyarrow.pandas_compat",
]


def fork_server() -> ForkServerContext:
    """A context whose processes share nothing with this one but what they are given."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def exit_codes(processes: Sequence[BaseProcess]) -> list[int | None]:
    """Those of processes that have ended, all of them. When one has failed the others are killed, which may wait for
    it, and so are those that do not end."""
    running, end = list(processes), time.monotonic() + LONGEST_SECONDS
    while running:
        ended = wait([process.sentinel for process in running], max(0.0, end - time.monotonic()))
        running = [process for process in running if process.exitcode is None]
        if not ended or any(process.exitcode for process in processes):
            break
    for process in running:
        process.kill()
        process.join()
    return [process.exitcode for process in processes]


def received(pipe: Connection) -> Any:
    """The next message; EOFError when all who could send it have ended."""
    assert pipe.poll(LONGEST_SECONDS), "nothing is said"
    return pipe.recv()
