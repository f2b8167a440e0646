"""The live files of a snapshot as an Arrow table, for people and tools."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from paimon_spark.metadata.locations import data_file_path
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.partition import partition_path
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.rows.binary_row import decode
from paimon_spark.types import DataField

_SOURCES = {0: "APPEND", 1: "COMPACT"}


def files_table(metadata: TableMetadata, schema: TableSchema, entries: Sequence[ManifestEntry]) -> pa.Table:
    """One row a file, in the entries' order; the columns are those of ``PaimonTable.files``."""
    files = [entry.file for entry in entries]
    fields = schema.partition_fields
    partitions = decode([e.partition for e in entries], [f.type for f in fields])
    names = [partition_path([c[i] for c in partitions], fields, schema.options) for i in range(len(entries))]
    paths = [data_file_path(metadata.paths, schema, e.partition, e.bucket, e.file) for e in entries]
    return pa.table(
        {
            "partition": pa.array(names, pa.string()),
            "bucket": pa.array([e.bucket for e in entries], pa.int32()),
            "file_path": pa.array(paths, pa.string()),
            "level": pa.array([f.level for f in files], pa.int32()),
            "record_count": pa.array([f.row_count for f in files], pa.int64()),
            "delete_row_count": pa.array([f.delete_row_count for f in files], pa.int64()),
            "file_size_in_bytes": pa.array([f.size for f in files], pa.int64()),
            "min_key": _keys([f.min_key for f in files], schema.key_fields),
            "max_key": _keys([f.max_key for f in files], schema.key_fields),
            "min_sequence_number": pa.array([f.min_sequence for f in files], pa.int64()),
            "max_sequence_number": pa.array([f.max_sequence for f in files], pa.int64()),
            "schema_id": pa.array([f.schema_id for f in files], pa.int64()),
            "source": pa.array([_SOURCES.get(-1 if f.source is None else f.source) for f in files], pa.string()),
            "creation_time": pa.array([f.creation_millis for f in files], pa.timestamp("ms")),
        }
    )


def _keys(rows: Sequence[bytes], fields: Sequence[DataField]) -> pa.Array:
    """Keys as JSON arrays, such as ``[1, "a"]``."""
    columns = [column.to_pylist() for column in decode(rows, [f.type for f in fields])]
    return pa.array(
        [json.dumps(key, default=str, ensure_ascii=False) for key in zip(*columns, strict=True)], pa.string()
    )
