"""This package's lookup stores as a contestant: ``python -m benchmarks.lookup_ours``."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import numpy as np

from benchmarks.lookup_data import asked, keys, values
from benchmarks.process import serve
from paimon_spark.lookup import HashLookupStore, SortLookupStore
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.store_reader import StoreReader

CHUNK = 65_536
STORES: dict[str, Any] = {"hash": HashLookupStore, "sort": SortLookupStore}
opened: dict[str, StoreReader] = {}


def build(path: str, kind: str, compression: str, rows: int, length: int) -> dict[str, Any]:
    """A new file of ``rows`` keys with values of ``length`` bytes; making them is not timed."""
    for name in (path, path + ".context"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
    cpu, wall = -time.process_time(), -time.perf_counter()
    writer = STORES[kind].writer(path, rows, 0.05, compression, 65536)
    cpu, wall = cpu + time.process_time(), wall + time.perf_counter()
    for start in range(0, rows, CHUNK):
        stop = min(rows, start + CHUNK)
        some_keys = keys(np.arange(2 * start, 2 * stop, 2, dtype=np.uint64))
        some_values = values(start, stop, length)
        cpu, wall = cpu - time.process_time(), wall - time.perf_counter()
        writer.put_many(some_keys, some_values)
        cpu, wall = cpu + time.process_time(), wall + time.perf_counter()
    cpu, wall = cpu - time.process_time(), wall - time.perf_counter()
    writer.close()
    cpu, wall = cpu + time.process_time(), wall + time.perf_counter()
    return {"cpu": cpu, "wall": wall, "bytes": os.path.getsize(path)}


def open_file(path: str, kind: str, compression: str) -> dict[str, Any]:
    """Open the file with an empty cache."""
    opened[path] = STORES[kind].reader(path, cache=LookupMemory(256 * 2**20))
    return {}


def get(path: str, count: int, batch: int, rows: int, seed: int, hit: bool, sorted: bool) -> dict[str, Any]:
    """``count`` lookups in batches, each sorted in itself where asked for."""
    numbers = [asked(min(batch, count - at), rows, seed + at, hit) for at in range(0, count, batch)]
    if sorted:
        for some in numbers:
            some.sort()
    batches = [keys(some) for some in numbers]
    reader = opened[path]
    found = size = 0
    cpu, wall = time.process_time(), time.perf_counter()
    for some in batches:
        answer = reader.get_many(some)
        found += len(answer) - answer.null_count
        size += answer.buffers()[2].size if answer.buffers()[2] is not None and answer.null_count < len(answer) else 0
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu": cpu, "wall": wall, "found": found, "value_bytes": size}


def close(path: str) -> dict[str, Any]:
    """Close and delete the file."""
    opened.pop(path).close()
    os.unlink(path)
    os.unlink(path + ".context")
    return {}


if __name__ == "__main__":
    serve({"build": build, "open": open_file, "get": get, "close": close})
