"""Tables and manifest entries that describe data files which do not exist: metadata is all that these tests need."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from paimon_spark.metadata.data_file import DataFile, Statistics
from paimon_spark.metadata.manifest import ADD, ManifestEntry
from paimon_spark.metadata.schema import TableSchema, new_table_schema
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.rows.binary_row import EMPTY_ROW, serialize
from paimon_spark.storage.local import LocalStorage
from paimon_spark.storage.storage import Storage
from paimon_spark.types import DataType, fields_from_arrow

INT = DataType("INT", nullable=False)


def new_table(
    path: Path, options: Mapping[str, str] | None = None, partitioned: bool = False, storage: Storage | None = None
) -> tuple[TableMetadata, TableSchema]:
    """A table (p INT, k INT, v STRING) without snapshots, with key k, or (p, k) when partitioned by p."""
    fields, highest = fields_from_arrow(
        pa.schema([pa.field("p", pa.int32()), pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
    )
    keys, partition = (["p", "k"], ["p"]) if partitioned else (["k"], [])
    schema = new_table_schema(fields, highest, keys, partition, {"bucket": "2", **(options or {})}, None, 0)
    metadata = TableMetadata(storage or LocalStorage(), str(path))
    assert metadata.schemas.create(schema)
    return metadata, schema


def row(value: int) -> bytes:
    """The serialized row of one INT: a key, or a partition."""
    return serialize([pa.array([value], pa.int32())], [INT])[0]


def data_file(lowest: int = 0, highest: int = 9, level: int = 0, **more: object) -> DataFile:
    """A file of keys from ``lowest`` to ``highest``, each once."""
    low, high = row(lowest), row(highest)
    stats = Statistics(low, high, (0,))
    values: dict[str, object] = {
        "name": f"data-{uuid.uuid4()}-0.parquet",
        "size": 1000,
        "row_count": highest - lowest + 1,
        "min_key": low,
        "max_key": high,
        "key_stats": stats,
        "value_stats": stats,
        "min_sequence": lowest,
        "max_sequence": highest,
        "schema_id": 0,
        "level": level,
        **more,
    }
    return DataFile(**values)  # type: ignore[arg-type]


def added(
    file: DataFile | None = None, partition: bytes = EMPTY_ROW, bucket: int = 0, total_buckets: int = 2
) -> ManifestEntry:
    """The addition of a file."""
    return ManifestEntry(ADD, partition, bucket, total_buckets, file or data_file())


def names_in(directory: str) -> set[str]:
    """The files of a directory."""
    path = Path(directory)
    return {file.name for file in path.iterdir()} if path.exists() else set()
