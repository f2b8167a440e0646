"""ManifestStore: the manifests and manifest lists of one table, as files."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.avro import FILE_LIMIT, write_container
from paimon_spark.metadata.data_file import Statistics
from paimon_spark.metadata.key_order import column_bounds
from paimon_spark.metadata.manifest import ADD, SCHEMA, KeepEntry, ManifestEntry, manifest_rows, read_manifest
from paimon_spark.metadata.manifest_list import ManifestFile, read_manifest_list, write_manifest_list
from paimon_spark.metadata.paths import TablePaths
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.options import MANIFEST_COMPRESSION, MANIFEST_TARGET_SIZE
from paimon_spark.storage.storage import Storage
from paimon_spark.types import DataType


@dataclass(frozen=True)
class ManifestStore:
    """Reads and writes manifests. What it reads is checked against the sizes that other files recorded."""

    storage: Storage
    paths: TablePaths

    def read(self, manifest: ManifestFile, keep: KeepEntry | None = None) -> list[ManifestEntry]:
        """The entries of a manifest, in order; only those that ``keep`` wants.

        :raises NotFound: the manifest is gone (its snapshot expired)
        :raises CorruptFile: see :func:`read_manifest`
        """
        path = self.paths.manifest(manifest.name)
        return read_manifest(self._read(path, manifest.size), path, keep)

    def read_list(self, name: str, size: int | None = None) -> list[ManifestFile]:
        """The manifests of a list; ``size`` is the list's size in bytes where the snapshot records it."""
        path = self.paths.manifest(name)
        return read_manifest_list(self._read(path, size), path)

    def of_snapshot(self, snapshot: Snapshot) -> list[ManifestFile]:
        """All manifests of a snapshot: those of the base list, then those of the delta list."""
        base = self.read_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        return base + self.of_delta(snapshot)

    def of_delta(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests of the snapshot's own changes."""
        return self.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def write(self, entries: Sequence[ManifestEntry], schema: TableSchema) -> Iterator[ManifestFile]:
        """Write the entries, in order, to as many manifests as ``manifest.target-file-size`` asks for.

        Each manifest is yielded as soon as it is written, so that a caller who fails later knows what to delete.
        """
        if not entries:
            return
        compression = schema.options.get_option(MANIFEST_COMPRESSION)
        target = schema.options.get_option(MANIFEST_TARGET_SIZE)
        cut = _Cut(entries)
        prefix = f"manifest-{uuid.uuid4()}"
        for number, data in enumerate(write_container(SCHEMA, manifest_rows(cut), compression, target)):
            name = f"{prefix}-{number}"
            self.storage.write(self.paths.manifest(name), data)
            yield describe(name, len(data), cut.since_last(), [f.type for f in schema.partition_fields])

    def write_list(self, files: Sequence[ManifestFile], schema: TableSchema) -> tuple[str, int]:
        """Write a manifest list; its name and size in bytes."""
        data = write_manifest_list(files, schema.options.get_option(MANIFEST_COMPRESSION))
        name = f"manifest-list-{uuid.uuid4()}-0"
        self.storage.write(self.paths.manifest(name), data)
        return name, len(data)

    def delete(self, name: str) -> None:
        """Delete a manifest or a manifest list."""
        self.storage.delete(self.paths.manifest(name))

    def _read(self, path: str, size: int | None) -> bytes:
        data = self.storage.read(path, FILE_LIMIT)
        if size is not None and len(data) != size:
            raise CorruptFile(path, f"it has {len(data)} bytes, where the table recorded {size}")
        return data


class _Cut:
    """Hands out entries one by one, and remembers which went out since it was last asked."""

    def __init__(self, entries: Sequence[ManifestEntry]) -> None:
        self._entries = entries
        self._next = 0
        self._start = 0

    def __iter__(self) -> Iterator[ManifestEntry]:
        for entry in self._entries:
            self._next += 1
            yield entry

    def since_last(self) -> Sequence[ManifestEntry]:
        start, self._start = self._start, self._next
        return self._entries[start : self._next]


def describe(
    name: str, size: int, entries: Sequence[ManifestEntry], partition_types: Sequence[DataType]
) -> ManifestFile:
    """What a manifest list says of a manifest with these entries. Requires: at least one entry."""
    added = sum(entry.kind == ADD for entry in entries)
    buckets = [entry.bucket for entry in entries]
    levels = [entry.file.level for entry in entries]
    counts: dict[bytes, int] = {}
    for entry in entries:
        counts[entry.partition] = counts.get(entry.partition, 0) + 1
    return ManifestFile(
        name,
        size,
        added,
        len(entries) - added,
        _partition_stats(counts, partition_types),
        max(entry.file.schema_id for entry in entries),
        min(buckets),
        max(buckets),
        min(levels),
        max(levels),
    )


def _partition_stats(counts: dict[bytes, int], types: Sequence[DataType]) -> Statistics:
    partitions = list(counts)
    lower, upper, _ = column_bounds(partitions, types)
    nulls = _null_entries(partitions, list(counts.values()), types)
    return Statistics(lower, upper, nulls)


def _null_entries(partitions: Sequence[bytes], counts: Sequence[int], types: Sequence[DataType]) -> tuple[int, ...]:
    """For each partition column, how many entries have a null there."""
    bits = [int.from_bytes(row[4 : 4 + 8 * ((len(types) + 71) // 64)], "little") >> 8 for row in partitions]
    return tuple(
        sum(count for row, count in zip(bits, counts, strict=True) if row >> column & 1) for column in range(len(types))
    )
