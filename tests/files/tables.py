"""Schemas and files for the tests of this room."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.files.key_values import KeyValues, concat
from paimon_spark.files.reader import read_data_file
from paimon_spark.files.writer import RollingWriter
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import Options
from paimon_spark.storage.local import LocalStorage
from paimon_spark.types import DataField, parse_type

STORAGE = LocalStorage()


def fields_of(*columns: tuple[str, Any], first_id: int = 0) -> tuple[DataField, ...]:
    """Fields of (name, type as in schema files), ids in order."""
    return tuple(DataField(first_id + i, name, parse_type(type_)) for i, (name, type_) in enumerate(columns))


def schema_of(
    fields: tuple[DataField, ...], key: tuple[str, ...] = ("k",), id_: int = 0, **options: str
) -> TableSchema:
    """A schema without partitions; ``_`` in option names stands for ``.`` and ``__`` for ``-``."""
    named = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    return TableSchema(id_, fields, max(f.id for f in fields), (), key, Options(named))


def write(directory: Path, schema: TableSchema, *parts: KeyValues, level: int = 0, source: int = 0) -> list[DataFile]:
    """The files that a writer makes of the parts."""
    writer = RollingWriter(STORAGE, str(directory), schema, schema.options, level, source)
    for part in parts:
        writer.write(part)
    return writer.close()


def read(directory: Path, file: DataFile, schema: TableSchema, **arguments: Any) -> KeyValues:
    """All rows of a file; ``fields`` defaults to those of the schema it was written with."""
    arguments.setdefault("fields", schema.fields)
    return concat(list(read_parts(directory, file, schema, **arguments)))


def read_parts(directory: Path, file: DataFile, schema: TableSchema, **arguments: Any) -> Iterator[KeyValues]:
    """The batches of a file."""
    return read_data_file(STORAGE, f"{directory}/{file.name}", file, data_schema=schema, **arguments)


def numbered(table: pa.Table, kind: list[int] | None = None) -> KeyValues:
    """Rows with sequence numbers from 0."""
    return KeyValues(table, np.arange(table.num_rows), None if kind is None else np.array(kind, np.int8))


@dataclass(frozen=True)
class GoldenFile:
    """A data file that Java wrote, and what Java says of it."""

    table: TableMetadata
    schema: TableSchema
    partition: bytes
    bucket: int
    file: DataFile

    @property
    def directory(self) -> Path:
        return Path(self.table.bucket_directory(self.schema, self.partition, self.bucket))


def golden_table_metadata(case: Path) -> TableMetadata:
    return TableMetadata(STORAGE, str(case / "warehouse" / "default.db" / "t"))


def golden_files(case: Path, snapshot: int | None = None) -> list[GoldenFile]:
    """The files of a snapshot (default: each file of any snapshot, once)."""
    table = golden_table_metadata(case)
    found: dict[str, GoldenFile] = {}
    for id_ in table.snapshots.ids() if snapshot is None else [snapshot]:
        for entry in live_files(table, table.snapshots.get(id_)):
            schema = table.schemas.get(entry.file.schema_id)
            found[entry.file.name] = GoldenFile(table, schema, entry.partition, entry.bucket, entry.file)
    return list(found.values())


def expected_steps(case: Path) -> list[dict[str, Any]]:
    """What Java said after each step that wrote."""
    steps = [json.loads(line) for line in (case / "expected.jsonl").read_text().splitlines()]
    return [step for step in steps if "splits" in step]
