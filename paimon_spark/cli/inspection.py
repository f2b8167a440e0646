"""What ``inspect`` shows of a table: its definition, a snapshot, and what lies at each level of each bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from paimon_spark.cli.rendering import count, one_line, size, table, without_repeats
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.options import DELETION_VECTORS
from paimon_spark.table import PaimonTable


def inspection(paimon: PaimonTable, options: Mapping[str, str], files: bool, width: int) -> Iterator[str]:
    """The lines of an inspection of the snapshot that ``options`` select; ``files`` adds a line a data file."""
    chosen = options.get("scan.snapshot-id")
    snapshot = paimon.snapshot(None if chosen is None else int(chosen))
    yield one_line(paimon.path)
    for name, text in (*_definition(paimon.table_schema), ("snapshot", _snapshot(snapshot))):
        yield f"  {name:<12}{one_line(text)}"
    if snapshot is None:
        return
    pinned = {**options, "scan.snapshot-id": str(snapshot.id)}
    yield ""
    yield from levels_text(paimon.levels(pinned), width)
    if files:
        yield ""
        yield from _files_text(paimon.files(pinned), paimon.path)


def _definition(schema: TableSchema) -> Iterator[tuple[str, str]]:
    yield "key", ", ".join(schema.primary_keys)
    if schema.partition_keys:
        yield "partitions", ", ".join(schema.partition_keys)
    buckets = {-1: "dynamic buckets", -2: "postponed buckets", 1: "1 bucket"}
    parts = [schema.merge_engine, buckets.get(schema.bucket, f"{schema.bucket} buckets")]
    if schema.options.get_option(DELETION_VECTORS):
        parts.append("deletion vectors")
    yield "engine", ", ".join(parts)


def _snapshot(snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return "none"
    seconds = snapshot.time_millis / 1000
    time = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{snapshot.id} ({snapshot.commit_kind}, {time}), schema {snapshot.schema_id}"


def levels_text(levels: pa.Table, width: int) -> Iterator[str]:
    """``PaimonTable.levels()`` as lines of at most ``width`` columns, with totals."""
    partitioned = any(levels.column("partition").to_pylist())
    shown = without_repeats([_level(row) for row in levels.to_pylist()], 2)
    sums = {name: sum(levels.column(name).to_pylist()) for name in ("files", "rows", "deleted_rows", "bytes")}
    label = ["all", ""] if partitioned else ["", "all"]
    total = [*label, "", count(sums["files"]), count(sums["rows"]), count(sums["deleted_rows"]), size(sums["bytes"])]
    headers = ["partition", "bucket", "level", "files", "rows", "deleted", "size", "keys"]
    numeric = [False, *[True] * 6, False]
    first = 0 if partitioned else 1
    rows = [row[first:] for row in (*shown, [*total, ""])]
    yield from table(headers[first:], rows, numeric[first:], width, totals=1)


def _level(row: Mapping[str, Any]) -> list[str]:
    numbers = (count(row[name]) for name in ("files", "rows", "deleted_rows"))
    keys = f"{row['min_key']} … {row['max_key']}"
    return [row["partition"], str(row["bucket"]), str(row["level"]), *numbers, size(row["bytes"]), keys]


def _files_text(files: pa.Table, root: str) -> Iterator[str]:
    """``PaimonTable.files()`` as lines; paths come last and whole, so that they can be copied."""
    ordered = files.sort_by([(name, "ascending") for name in ("partition", "bucket", "level", "min_sequence_number")])
    rows = [
        [
            str(row["level"]),
            count(row["record_count"]),
            "?" if row["delete_row_count"] is None else count(row["delete_row_count"]),
            size(row["file_size_in_bytes"]),
            f"{row['min_sequence_number']}…{row['max_sequence_number']}",
            row["file_path"].removeprefix(root + "/"),
        ]
        for row in ordered.to_pylist()
    ]
    headers = ["level", "rows", "deletes", "size", "sequence", "file"]
    yield from table(headers, rows, [True] * 5 + [False])
