"""Many processes write one table at once: every commit is there, once, and none replaced another."""

from __future__ import annotations

import hashlib
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa

from paimon_spark.table import PaimonTable
from tests.processes import exit_codes, fork_server

PROCESSES, APPENDS = 8, 50


def _append_many(path: str, process: int, start: Barrier, digests: dict[int, str]) -> None:
    start.wait()
    for i in range(APPENDS):
        row = process * APPENDS + i
        data = pa.table({"id": pa.array([row], pa.int64()), f"c{process}": pa.array([row], pa.int64())})
        snapshot = PaimonTable.open(path).append(data)
        assert snapshot is not None
        digests[snapshot.id] = _digest(path, snapshot.id)


def _digest(path: str, snapshot: int) -> str:
    return hashlib.sha256(Path(path, "snapshot", f"snapshot-{snapshot}").read_bytes()).hexdigest()


def test_every_concurrent_append_makes_a_snapshot(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    columns = [("id", pa.int64()), *((f"c{p}", pa.int64()) for p in range(PROCESSES))]
    options = {"merge-engine": "partial-update", "bucket": "2"}
    PaimonTable.create(path, pa.schema(columns), ["id"], options=options)
    context = fork_server()
    with context.Manager() as manager:
        digests, start = manager.dict(), manager.Barrier(PROCESSES)
        writers = [context.Process(target=_append_many, args=(path, p, start, digests)) for p in range(PROCESSES)]
        for writer in writers:
            writer.start()
        assert exit_codes(writers) == [0] * PROCESSES
        recorded = dict(digests)
    table = PaimonTable.open(path)
    total = PROCESSES * APPENDS
    assert [s.id for s in table.snapshots()] == list(range(1, total + 1))
    assert recorded == {id_: _digest(path, id_) for id_ in range(1, total + 1)}
    rows = table.read()
    assert sorted(rows.column("id").to_pylist()) == list(range(total))
    for process in range(PROCESSES):
        mine = list(range(process * APPENDS, (process + 1) * APPENDS))
        assert sorted(v for v in rows.column(f"c{process}").to_pylist() if v is not None) == mine
