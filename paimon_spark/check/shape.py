"""The shape of a table: what lies at each level of each bucket, as an Arrow table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.merge.sections import file_key_ranges
from paimon_spark.metadata.deletion_vector import read_deletion_vector
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.partition import partition_path
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.metadata.vector_range import DeletionVectorRef
from paimon_spark.rows.binary_row import decode
from paimon_spark.types import DataField

SCHEMA = pa.schema(
    [
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("level", pa.int32()),
        ("files", pa.int64()),
        ("rows", pa.int64()),
        ("deleted_rows", pa.int64()),
        ("bytes", pa.int64()),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
    ]
)


def bucket_levels(metadata: TableMetadata, schema: TableSchema, snapshot: Snapshot | None) -> pa.Table:
    """One row for each partition, bucket and level that has files, ordered by the three.

    ``rows`` counts all rows in the files, ``deleted_rows`` those of them that deletion vectors mask. Keys are JSON
    arrays of the trimmed primary key, such as ``[1, "a"]``.
    """
    entries = [] if snapshot is None else live_files(metadata, snapshot)
    if not entries or snapshot is None:
        return SCHEMA.empty_table()
    names = _partition_names({entry.partition for entry in entries}, schema)
    deleted = _deleted_rows(metadata, snapshot, entries)
    mins, maxs = file_key_ranges([entry.file for entry in entries], [f.type for f in schema.key_fields])
    groups: dict[tuple[str, int, int], list[int]] = {}
    for i, entry in enumerate(entries):
        groups.setdefault((names[entry.partition], entry.bucket, entry.file.level), []).append(i)
    ordered = sorted(groups)
    members = [groups[key] for key in ordered]
    least = [m[int(np.argsort(mins[m], kind="stable")[0])] for m in members]
    greatest = [m[int(np.argsort(maxs[m], kind="stable")[-1])] for m in members]
    files = [entry.file for entry in entries]
    columns = [
        *(list(column) for column in zip(*ordered, strict=True)),
        [len(m) for m in members],
        [sum(files[i].row_count for i in m) for m in members],
        [sum(deleted[i] for i in m) for m in members],
        [sum(files[i].size for i in m) for m in members],
        _keys([files[i].min_key for i in least], schema.key_fields),
        _keys([files[i].max_key for i in greatest], schema.key_fields),
    ]
    return pa.table(columns, schema=SCHEMA)


def _partition_names(partitions: set[bytes], schema: TableSchema) -> Mapping[bytes, str]:
    fields, rows = schema.partition_fields, list(partitions)
    columns = decode(rows, [f.type for f in fields])
    return {row: partition_path([c[i] for c in columns], fields, schema.options) for i, row in enumerate(rows)}


def _deleted_rows(metadata: TableMetadata, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> list[int]:
    """How many rows of each file are masked; vectors are read only where their cardinality is not recorded."""
    vectors = metadata.indexes.deletion_vectors(snapshot)

    def count(entry: ManifestEntry, ref: DeletionVectorRef | None) -> int:
        if ref is None:
            return 0
        if ref.cardinality is not None:
            return ref.cardinality
        return read_deletion_vector(metadata.storage, ref, entry.file.row_count).cardinality

    return [count(e, vectors.get((e.partition, e.bucket), {}).get(e.file.name)) for e in entries]


def _keys(rows: Sequence[bytes], fields: Sequence[DataField]) -> list[str]:
    columns = [column.to_pylist() for column in decode(rows, [f.type for f in fields])]
    return [json.dumps(key, default=str, ensure_ascii=False) for key in zip(*columns, strict=True)]
