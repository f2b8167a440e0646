"""Index manifests: which hash indexes and deletion-vector files belong to a snapshot.

One file, an Avro container, holds the full state (there are no deltas), as rows::

    _VERSION int = 1 | _KIND int = 0 | _PARTITION bytes | _BUCKET int | _INDEX_TYPE string
    _FILE_NAME string | _FILE_SIZE long | _ROW_COUNT long
    _DELETIONS_VECTORS_RANGES null or array of {f0 data file, f1 offset, f2 length, _CARDINALITY null or long}
    _EXTERNAL_PATH null or string

``_ROW_COUNT`` is the number of hashes of a HASH index and the number of vectors of a DELETION_VECTORS file. Rows of
types that this package does not know, and fields such as ``_GLOBAL_INDEX``, are carried from one state to the next.

Source: ``IndexManifestEntry``, ``IndexManifestFileHandler``, ``DeletionVectorMeta`` of Apache Paimon.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.avro import Row, read_container, write_container
from paimon_spark.metadata.avro_schema import Layout
from paimon_spark.metadata.file_name import require_plain_name
from paimon_spark.metadata.manifest import ADD, DELETE
from paimon_spark.metadata.vector_range import VectorRange

HASH, DELETION_VECTORS = "HASH", "DELETION_VECTORS"
VERSION = 1


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One index file of a bucket. ``kind`` is ADD in a stored manifest; changes may also DELETE.

    ``ranges`` is None for anything but deletion vectors. ``extra`` has the fields that this package does not know.
    """

    kind: int
    partition: bytes
    bucket: int
    index_type: str
    name: str
    size: int
    row_count: int
    ranges: tuple[VectorRange, ...] | None = None
    external_path: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def deleted(self) -> IndexEntry:
        """The change that removes this file."""
        return replace(self, kind=DELETE)


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """The index files of a snapshot; ``extra_fields`` are the Avro schemas of their unknown fields."""

    entries: tuple[IndexEntry, ...] = ()
    extra_fields: tuple[Mapping[str, Any], ...] = ()


# --------------------------------------------------------------------------- bytes

SCHEMA = """{"type": "record", "name": "record", "namespace": "org.apache.paimon.avro.generated", "fields": [
  {"name": "_VERSION", "type": "int"},
  {"name": "_KIND", "type": "int"},
  {"name": "_PARTITION", "type": "bytes"},
  {"name": "_BUCKET", "type": "int"},
  {"name": "_INDEX_TYPE", "type": "string"},
  {"name": "_FILE_NAME", "type": "string"},
  {"name": "_FILE_SIZE", "type": "long"},
  {"name": "_ROW_COUNT", "type": "long"},
  {"name": "_DELETIONS_VECTORS_RANGES", "type": ["null", {"type": "array", "items": ["null", {
    "type": "record", "name": "record__DELETIONS_VECTORS_RANGES", "fields": [
      {"name": "f0", "type": "string"},
      {"name": "f1", "type": "int"},
      {"name": "f2", "type": "int"},
      {"name": "_CARDINALITY", "type": ["null", "long"], "default": null}
  ]}]}], "default": null},
  {"name": "_EXTERNAL_PATH", "type": ["null", "string"], "default": null}
]}"""
_RANGE_LAYOUT = Layout({"f0": "string", "f1": "int", "f2": "int"}, {"_CARDINALITY": "long"})
_REQUIRED = {
    "_VERSION": "int",
    "_KIND": "int",
    "_PARTITION": "bytes",
    "_BUCKET": "int",
    "_INDEX_TYPE": "string",
    "_FILE_NAME": "string",
    "_FILE_SIZE": "long",
    "_ROW_COUNT": "long",
}
_OPTIONAL = {"_DELETIONS_VECTORS_RANGES": [_RANGE_LAYOUT, "null"], "_EXTERNAL_PATH": "string"}
_LAYOUT = Layout(_REQUIRED, _OPTIONAL)


def read_index_manifest(data: bytes, path: str) -> IndexManifest:
    """The state that an index manifest holds.

    :raises CorruptFile: the bytes are no index manifest, or it has impossible values
    """
    container = read_container(data, path, _LAYOUT)
    entries = tuple(_entry(row, path) for block in container.rows for row in block)
    return IndexManifest(entries, container.extra)


def _entry(row: Row, path: str) -> IndexEntry:
    name = require_plain_name(row["_FILE_NAME"], path)
    size, rows = row["_FILE_SIZE"], row["_ROW_COUNT"]
    if row["_VERSION"] != VERSION or row["_KIND"] != ADD or size < 0 or rows < 0:
        shown = ", ".join(f"{k} {v}" for k, v in row.items() if isinstance(v, int))
        raise CorruptFile(path, f"the entry of {name!r} has {shown}")
    ranges = row.get("_DELETIONS_VECTORS_RANGES")
    return IndexEntry(
        ADD,
        row["_PARTITION"],
        row["_BUCKET"],
        row["_INDEX_TYPE"],
        name,
        size,
        rows,
        None if ranges is None else tuple(_range(r, size, path) for r in ranges),
        row.get("_EXTERNAL_PATH"),
        {key: value for key, value in row.items() if key not in _REQUIRED and key not in _OPTIONAL},
    )


def _range(row: Row | None, size: int, path: str) -> VectorRange:
    if row is None:
        raise CorruptFile(path, "a deletion vector's range is null")
    file, offset, length, cardinality = row["f0"], row["f1"], row["f2"], row.get("_CARDINALITY")
    if offset < 0 or length < 0 or offset + length > size or (cardinality or 0) < 0:
        raise CorruptFile(
            path, f"the vector of {file!r} ({offset=}, {length=}, {cardinality=}) is outside its file of {size} bytes"
        )
    return VectorRange(require_plain_name(file, path), offset, length, cardinality)


def write_index_manifest(manifest: IndexManifest, compression: str) -> bytes:
    """The bytes of an index manifest; fields unknown here are written only when an entry has one."""
    schema = json.loads(SCHEMA)
    if any(value is not None for entry in manifest.entries for value in entry.extra.values()):
        schema["fields"].extend(manifest.extra_fields)
    (data,) = write_container(json.dumps(schema), map(_row, manifest.entries), compression)
    return data


def _row(entry: IndexEntry) -> Row:
    ranges = None
    if entry.ranges is not None:
        ranges = [{"f0": r.file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in entry.ranges]
    return {
        "_VERSION": VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.name,
        "_FILE_SIZE": entry.size,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": ranges,
        "_EXTERNAL_PATH": entry.external_path,
        **entry.extra,
    }


# --------------------------------------------------------------------------- changes


def combine(previous: IndexManifest, changes: Iterable[IndexEntry]) -> IndexManifest:
    """The state after some changes: deletions apply first, then every addition.

    A hash index or a file of deletion vectors replaces the one that its bucket had; an index of another type is
    added or deleted by its file name.
    """
    changed = list(changes)
    gone = {_key(entry) for entry in changed}
    kept = [entry for entry in previous.entries if _key(entry) not in gone]
    added = {_key(entry): entry for entry in changed if entry.kind == ADD}
    return IndexManifest((*kept, *added.values()), previous.extra_fields)


def _key(entry: IndexEntry) -> tuple[object, ...]:
    if entry.index_type in (HASH, DELETION_VECTORS):
        return (entry.index_type, entry.partition, entry.bucket)
    return (entry.index_type, entry.name)


def deletion_vector_files(entries: Sequence[IndexEntry]) -> dict[tuple[bytes, int], str]:
    """The name of the index file that has the deletion vectors of each (partition, bucket)."""
    return {(e.partition, e.bucket): e.name for e in entries if e.index_type == DELETION_VECTORS}
