"""This package as a contestant: ``python -m benchmarks.ours``."""

from __future__ import annotations

import shutil
from functools import cache
from typing import Any

import pyarrow as pa

from benchmarks.data import OPTIONS, SCHEMA, checksum, rows
from benchmarks.process import measured, peak_megabytes, serve
from paimon_spark import PaimonTable

made = cache(rows)


def write(path: str, start: int, end: int, keys: int, fresh: bool = True) -> dict[str, Any]:
    """One commit of rows ``start`` to ``end``, to a new table when ``fresh``."""
    data = made(start, end, keys)
    if fresh:
        shutil.rmtree(path, ignore_errors=True)
    answer: dict[str, Any] = {}
    with measured(answer):
        if fresh:
            PaimonTable.create(path, SCHEMA, ["k"], options=OPTIONS)
        PaimonTable.open(path).append(data)
    return answer


def write_file(path: str, data: str) -> dict[str, Any]:
    """One commit of the Arrow file ``data`` to a new table, and this process's greatest size."""
    with pa.OSFile(data) as source:
        table = pa.ipc.open_file(source).read_all()
    answer: dict[str, Any] = {}
    with measured(answer):
        PaimonTable.create(path, SCHEMA, ["k"], options=OPTIONS).append(table)
    return {**answer, "peak_mb": peak_megabytes(), "input_mb": table.nbytes / 2**20}


def scan(path: str, columns: list[str] | None = None, check: bool = False) -> dict[str, Any]:
    """Merge on read, batch by batch."""
    answer: dict[str, Any] = {}
    batches: list[pa.RecordBatch] = []
    with measured(answer):
        count = 0
        for batch in PaimonTable.open(path).read_batches(columns=columns):
            count += batch.num_rows
            if check:
                batches.append(batch)
    checked = {"checksum": checksum(pa.Table.from_batches(batches))} if check else {}
    return {**answer, "rows": count, **checked}


def plan(path: str) -> dict[str, Any]:
    """Plan a read of the whole table."""
    answer: dict[str, Any] = {}
    with measured(answer):
        splits = PaimonTable.open(path).scan().splits
    return {**answer, "rows": sum(split.row_count for split in splits)}


if __name__ == "__main__":
    serve({"write": write, "write_file": write_file, "scan": scan, "plan": plan})
