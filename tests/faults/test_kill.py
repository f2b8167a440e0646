"""Writers, compactors and who lets snapshots expire meanwhile are killed at random moments: what they were told is
committed stays, and nothing else shows.

A worker says over a pipe that it begins a commit, and that it has returned. When it is killed, the table must hold
every commit that had returned, may hold the one under way, and holds it whole.
"""

from __future__ import annotations

import os
import random
import signal
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.table import PaimonTable
from tests.processes import fork_server, received
from tests.sizes import seeded, sized

SCHEMA = pa.schema([("id", pa.int64()), ("worker", pa.int64()), ("half", pa.int64())])
ROWS = 4
KILLS_A_TABLE = 10
LONGEST_LIFE_SECONDS = 0.3

WRITERS = {"merge-engine": "partial-update", "bucket": "2"}
COMPACTORS = {**WRITERS, "deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "2"}


def work(path: str, first: int, compacting: bool, pipe: Connection) -> None:
    """Commit numbers from ``first`` on, until killed: each is ROWS new rows, and an update of the rows before."""
    number = first
    while True:
        pipe.send(("begin", number))
        PaimonTable.open(path).append(commit_of(number))
        pipe.send(("end", number))
        if compacting:
            PaimonTable.open(path).compact()
        number += 1


def expire(path: str, pipe: Connection) -> None:
    """Let snapshots expire, until killed; say so after the first time."""
    PaimonTable.open(path).expire_snapshots(2, 2, timedelta(0))
    pipe.send(("begin", 0))
    while True:
        PaimonTable.open(path).expire_snapshots(2, 2, timedelta(0))


def commit_of(number: int) -> pa.Table:
    ids = [number * ROWS + i for i in range(ROWS)]
    olds = [(number - 1) * ROWS + i for i in range(ROWS)] if number else []
    return pa.table(
        {
            "id": pa.array(ids + olds, pa.int64()),
            "worker": pa.array([number] * ROWS + [None] * len(olds), pa.int64()),
            "half": pa.array([None] * ROWS + [number] * len(olds), pa.int64()),
        }
    )


def expected(numbers: list[int]) -> dict[int, tuple[int | None, int | None]]:
    rows: dict[int, list[int | None]] = {}
    for number in numbers:
        for row in commit_of(number).to_pylist():
            known = rows.setdefault(row["id"], [None, None])
            known[0] = row["worker"] if row["worker"] is not None else known[0]
            known[1] = row["half"] if row["half"] is not None else known[1]
    return {key: (value[0], value[1]) for key, value in rows.items()}


def kill_once(path: str, first: int, kind: str, chance: random.Random) -> tuple[int, int]:
    """Start a worker and kill it; the last number that had ended and the last that had begun."""
    context = fork_server()
    mine, theirs = context.Pipe(duplex=False)
    workers = [context.Process(target=work, args=(path, first, kind != "writers", theirs), daemon=True)]
    if kind == "expirers":
        there, here = context.Pipe(duplex=False)
        workers.insert(0, context.Process(target=expire, args=(path, here), daemon=True))
        workers[0].start()
        here.close()
        assert received(there) == ("begin", 0)
    workers[-1].start()
    theirs.close()
    assert received(mine) == ("begin", first)
    last = {"begin": first, "end": first - 1}
    wanted = first - 1 + chance.randrange(4 if kind == "expirers" else 2)
    while last["end"] < wanted:
        event, number = received(mine)
        last[event] = number
    time.sleep(chance.uniform(0, LONGEST_LIFE_SECONDS))
    for process in chance.sample(workers, len(workers)):
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
    while True:
        try:
            event, number = mine.recv()
        except (EOFError, OSError):
            break
        last[event] = number
    mine.close()
    return last["end"], last["begin"]


@pytest.mark.parametrize(("kind", "usual"), [("writers", 40), ("compactors", 40), ("expirers", 20)])
def test_killed_processes_lose_nothing(tmp_path: Path, kind: str, usual: int) -> None:
    chance = seeded(f"kills of {kind}")
    kills, committed, unanswered, others, expired = sized(usual, 1000), 0, 0, 0, 0
    for table_number in range(kills // KILLS_A_TABLE):
        path = str(tmp_path / str(table_number))
        PaimonTable.create(path, SCHEMA, ["id"], options=WRITERS if kind == "writers" else COMPACTORS)
        next_number = 0
        for _ in range(KILLS_A_TABLE):
            ended, begun = kill_once(path, next_number, kind, chance)
            table = PaimonTable.open(path)
            rows = {row["id"]: (row["worker"], row["half"]) for row in table.read().to_pylist()}
            next_number = len(rows) // ROWS
            assert ended + 1 <= next_number <= begun + 1
            assert rows == expected(list(range(next_number)))
            unanswered += next_number - (ended + 1)
            assert table.check(all_snapshots=kind == "expirers") == []
        committed += next_number
        ids = table.metadata.snapshots.ids()
        others += (ids[-1] if ids else 0) - next_number
        expired += ids[0] - 1 if ids else 0
        table.remove_orphan_files(timedelta(0))
        assert table.remove_orphan_files(timedelta(0), dry_run=True) == []
        assert table.check(all_snapshots=True) == []
    print(f"{kills} kills, {committed} commits ({unanswered} unanswered), {others} compactions, {expired} expired")
    assert committed
    assert (expired > 0) == (kind == "expirers")
