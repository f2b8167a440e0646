"""This package as a contestant: ``python -m benchmarks.ours``."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
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


def build(path: str, count: int, columns: int, options: dict[str, str], runs: int = 1, updated: float = 0.0) -> Any:
    """A table of ``count`` keys and that many columns, written in so many runs and then compacted into one; after that
    this share of the keys, chosen at random, is written again."""
    shutil.rmtree(path, ignore_errors=True)
    table = PaimonTable.create(path, pa.schema(list(SCHEMA)[:columns]), ["k"], options=options)
    for run in range(runs):
        table.append(rows(run * count // runs, (run + 1) * count // runs, count).select(range(columns)))
    table.compact(full=True)
    if updated:
        chosen = np.flatnonzero(np.random.default_rng(1).random(count) < updated)
        table.append(rows(count, 2 * count, count).select(range(columns)).take(pa.array(chosen)))
    return {}


def compact(path: str, full: bool = False) -> dict[str, Any]:
    """Compact the table; what it takes, and this process's greatest size."""
    answer: dict[str, Any] = {}
    with measured(answer):
        PaimonTable.open(path).compact(full=full)
    return {**answer, "peak_mb": peak_megabytes()}


def scan_files(path: str, vectors: bool) -> dict[str, Any]:
    """Read all rows of the table's files, or those that their deletion vectors leave, batch by batch."""
    answer: dict[str, Any] = {}
    with measured(answer):
        count = 0
        scan = PaimonTable.open(path).scan()
        for split in scan.splits:
            for batch in scan.read_split(split if vectors else replace(split, deletions={})):
                count += batch.num_rows
    return {**answer, "rows": count}


def write_file(path: str, data: str, fresh: bool = True) -> dict[str, Any]:
    """One commit of the Arrow file ``data``, to a new table when ``fresh``, and this process's greatest size."""
    with pa.OSFile(data) as source:
        table = pa.ipc.open_file(source).read_all()
    answer: dict[str, Any] = {}
    with measured(answer):
        if fresh:
            PaimonTable.create(path, SCHEMA, ["k"], options=OPTIONS)
        PaimonTable.open(path).append(table)
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
    serve({command.__name__: command for command in (build, compact, plan, scan, scan_files, write, write_file)})
