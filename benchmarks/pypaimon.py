"""pypaimon as a contestant, in its own environment: ``.venv-pypaimon/bin/python -m benchmarks.pypaimon [native]``.

``native`` turns on its Rust core (the package pypaimon-rust) for reading, planning, writing and committing. It falls
back to Python where it cannot; the write asserts that it did not.
"""

from __future__ import annotations

import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

from benchmarks.data import OPTIONS, SCHEMA, checksum, rows
from benchmarks.process import measured, peak_megabytes, serve

NATIVE = sys.argv[1:] == ["native"]
DYNAMIC = {f"{what}.native.enabled": "true" for what in ("read", "write", "commit")} if NATIVE else {}

made = cache(rows)


def catalog_and_name(path: str) -> tuple[Any, str]:
    """The catalog of <warehouse>/<database>.db/<table> and the table's name in it."""
    place = Path(path)
    return CatalogFactory.create({"warehouse": str(place.parent.parent)}), f"{place.parent.stem}.{place.name}"


def open_table(path: str) -> Any:
    """The table at ``path``, through the Rust core if asked for."""
    catalog, name = catalog_and_name(path)
    table = catalog.get_table(name)
    return table.copy(DYNAMIC) if DYNAMIC else table


def create(path: str) -> None:
    """A new table."""
    catalog, name = catalog_and_name(path)
    catalog.create_database(name.split(".")[0], True)
    catalog.create_table(name, Schema.from_pyarrow_schema(SCHEMA, [], ["k"], OPTIONS), False)


def append(path: str, data: pa.Table) -> None:
    """One commit."""
    builder = open_table(path).new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    if NATIVE:
        assert type(writer).__name__ == "NativeTableWrite", f"the Rust writer is off: {type(writer).__name__}"
    writer.write_arrow(data)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def write(path: str, start: int, end: int, keys: int) -> dict[str, Any]:
    """One commit of rows ``start`` to ``end`` to a new table."""
    data = made(start, end, keys)
    shutil.rmtree(path, ignore_errors=True)
    answer: dict[str, Any] = {}
    with measured(answer):
        create(path)
        append(path, data)
    return answer


def write_file(path: str, data: str) -> dict[str, Any]:
    """One commit of the Arrow file ``data`` to a new table, and this process's greatest size."""
    with pa.OSFile(data) as source:
        table = pa.ipc.open_file(source).read_all()
    answer: dict[str, Any] = {}
    with measured(answer):
        create(path)
        append(path, table)
    return {**answer, "peak_mb": peak_megabytes(), "input_mb": table.nbytes / 2**20}


def scan(path: str, columns: list[str] | None = None, check: bool = False) -> dict[str, Any]:
    """Merge on read, batch by batch."""
    answer: dict[str, Any] = {}
    batches: list[pa.RecordBatch] = []
    with measured(answer):
        builder = open_table(path).new_read_builder()
        if columns is not None:
            builder = builder.with_projection(columns)
        count = 0
        for batch in builder.new_read().to_arrow_batch_reader(builder.new_scan().plan().splits()):
            count += batch.num_rows
            if check:
                batches.append(batch)
    checked = {"checksum": checksum(pa.Table.from_batches(batches))} if check else {}
    return {**answer, "rows": count, **checked}


def plan(path: str) -> dict[str, Any]:
    """Plan a read of the whole table."""
    answer: dict[str, Any] = {}
    with measured(answer):
        splits = open_table(path).new_read_builder().new_scan().plan().splits()
    return {**answer, "rows": sum(split.row_count for split in splits)}


if __name__ == "__main__":
    serve({"write": write, "write_file": write_file, "scan": scan, "plan": plan})
