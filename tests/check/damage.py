"""Real damage: tables whose files are changed behind the back of everything that keeps them sound."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_spark.check.breach import Breach, Kind
from paimon_spark.metadata.index_manifest import IndexEntry, IndexManifest
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.table import PaimonTable

COLUMNS = pa.schema(
    [
        pa.field("p", pa.int32(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("v", pa.float64()),
    ]
)


class Victim:
    """A table and the tools to damage its newest snapshot."""

    def __init__(self, path: Path) -> None:
        self.table = PaimonTable.open(str(path))

    @classmethod
    def of(cls, table: PaimonTable) -> Victim:
        """A table of any storage."""
        victim = cls.__new__(cls)
        victim.table = table
        return victim

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    @classmethod
    def new(cls, path: Path, *, partitioned: bool = False, **options: str) -> Victim:
        """A table of COLUMNS with key k (and p, when it is partitioned by p)."""
        keys, partitions = (["p", "k"], ["p"]) if partitioned else (["k"], [])
        named = {key.replace("_", "-").replace("--", "."): value for key, value in options.items()}
        PaimonTable.create(str(path), COLUMNS, keys, partitions, {"bucket": "1", **named})
        return cls(path)

    @classmethod
    def copy(cls, table: Path, path: Path) -> Victim:
        """A copy of a table, to be damaged in its stead."""
        shutil.copytree(table, path)
        return cls(path)

    def append(self, keys: Iterable[int], partition: int = 0) -> None:
        """Upsert rows of these keys."""
        keys = list(keys)
        count = len(keys)
        self.table.append(
            pa.table([[partition] * count, keys, [f"n{k}" for k in keys], [k / 2 for k in keys]], schema=COLUMNS)
        )

    # ------------------------------------------------------------------ look

    @property
    def schema(self) -> TableSchema:
        return self.table.table_schema

    @property
    def snapshot(self) -> Snapshot:
        snapshot = self.table.snapshot()
        assert snapshot is not None
        return snapshot

    @property
    def entries(self) -> list[ManifestEntry]:
        """The live files."""
        return live_files(self.metadata, self.snapshot)

    def path(self, entry: ManifestEntry) -> Path:
        """Where a data file is."""
        return Path(self.metadata.bucket_directory(self.schema, entry.partition, entry.bucket)) / entry.file.name

    def name(self, entry: ManifestEntry) -> str:
        """What breaches call a data file."""
        return str(self.path(entry).relative_to(self.table.path))

    def breaches(self, **arguments: Any) -> list[Breach]:
        return self.table.check(**arguments)

    def kinds(self, **arguments: Any) -> set[Kind]:
        return {breach.kind for breach in self.breaches(**arguments)}

    # ------------------------------------------------------------------ damage

    def publish(self, snapshot: Snapshot) -> None:
        """Put a snapshot in place of the one of its id."""
        path = self.metadata.paths.snapshot_file(snapshot.id)
        self.metadata.storage.replace(path, snapshot.serialize())

    def change_snapshot(self, **values: Any) -> None:
        """Give the newest snapshot other values."""
        self.publish(dataclasses.replace(self.snapshot, **values))

    def list_manifests(
        self,
        manifests: Sequence[ManifestFile],
        change: Callable[[ManifestFile], ManifestFile] = lambda manifest: manifest,
    ) -> None:
        """Let the newest snapshot consist of these manifests, as ``change`` describes them."""
        empty, empty_size = self.metadata.manifests.write_list([], self.schema)
        name, size = self.metadata.manifests.write_list([change(m) for m in manifests], self.schema)
        self.change_snapshot(
            base_manifest_list=empty,
            base_manifest_list_size=empty_size,
            delta_manifest_list=name,
            delta_manifest_list_size=size,
        )

    def list_files(self, entries: Sequence[ManifestEntry], **values: Any) -> None:
        """Let the newest snapshot consist of these entries, with totals that are right unless given."""
        self.list_manifests(list(self.metadata.manifests.write(entries, self.schema)))
        rows = sum(entry.file.row_count for entry in entries)
        self.change_snapshot(**{"total_record_count": rows, "delta_record_count": rows, **values})

    def change_file(self, entry: ManifestEntry, **values: Any) -> ManifestEntry:
        """Record other values for a file; its entry."""
        changed = dataclasses.replace(entry, file=entry.file._replace(**values))
        self.list_files([changed if e.identifier == entry.identifier else e for e in self.entries])
        return changed

    def rewrite(self, entry: ManifestEntry, change: Callable[[pa.Table], pa.Table]) -> None:
        """Change the physical rows of a file, and record its new size."""
        path = self.path(entry)
        rows = change(pq.read_table(path))
        pq.write_table(rows, path)
        self.change_file(entry, size=path.stat().st_size, row_count=len(rows))

    def move(self, entry: ManifestEntry, **place: Any) -> ManifestEntry:
        """Put a file into another partition or bucket."""
        moved = dataclasses.replace(entry, **place)
        self.path(moved).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.path(entry), self.path(moved))
        self.list_files([moved if e.identifier == entry.identifier else e for e in self.entries])
        return moved

    @property
    def indexes(self) -> list[IndexEntry]:
        """The index files."""
        return list(self.metadata.indexes.of_snapshot(self.snapshot).entries)

    def list_indexes(self, entries: Sequence[IndexEntry]) -> None:
        """Let the newest snapshot have these index files."""
        written = self.metadata.indexes.write(IndexManifest(tuple(entries)), self.schema)
        self.change_snapshot(index_manifest=written.name)


def column(rows: pa.Table, name: str, values: Sequence[Any]) -> pa.Table:
    """The rows with other values in a column, which may hold nulls then."""
    at = rows.schema.get_field_index(name)
    field = rows.schema.field(name).with_nullable(True)
    return rows.set_column(at, field, pa.array(values, field.type))
