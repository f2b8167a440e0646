"""Manifest lists: files that list manifests. A snapshot has a base list (the table before it) and a delta list.

A manifest list is an Avro container of rows::

    _VERSION int = 2 | _FILE_NAME string | _FILE_SIZE long | _NUM_ADDED_FILES long | _NUM_DELETED_FILES long
    _PARTITION_STATS record | _SCHEMA_ID long | _MIN_BUCKET, _MAX_BUCKET, _MIN_LEVEL, _MAX_LEVEL int or null
    _MIN_ROW_ID, _MAX_ROW_ID long or null

The size and both counts are exact: readers take the size as the length to read, and skip a manifest that claims to
have no additions, or no deletions.

Source: ``ManifestFileMeta``, ``ManifestFileMetaSerializer``, ``ManifestList`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.avro import Row, read_container, write_container
from paimon_spark.metadata.avro_schema import Layout
from paimon_spark.metadata.data_file import Statistics
from paimon_spark.metadata.file_name import require_plain_name
from paimon_spark.metadata.manifest import STATISTICS_LAYOUT, VERSION, statistics, statistics_row


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest as a list knows it.

    ``added`` and ``deleted`` count its entries of either kind. ``partition_stats`` bound its entries' partitions
    column by column. ``schema_id`` is the greatest of its files. Bounds of buckets and levels are over all entries,
    None where unknown.
    """

    name: str
    size: int
    added: int
    deleted: int
    partition_stats: Statistics
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


SCHEMA = """{"type": "record", "name": "record", "namespace": "org.apache.paimon.avro.generated", "fields": [
  {"name": "_VERSION", "type": "int"},
  {"name": "_FILE_NAME", "type": "string"},
  {"name": "_FILE_SIZE", "type": "long"},
  {"name": "_NUM_ADDED_FILES", "type": "long"},
  {"name": "_NUM_DELETED_FILES", "type": "long"},
  {"name": "_PARTITION_STATS", "type": {"type": "record", "name": "record__PARTITION_STATS", "fields": [
    {"name": "_MIN_VALUES", "type": "bytes"},
    {"name": "_MAX_VALUES", "type": "bytes"},
    {"name": "_NULL_COUNTS", "type": ["null", {"type": "array", "items": ["null", "long"]}], "default": null}
  ]}},
  {"name": "_SCHEMA_ID", "type": "long"},
  {"name": "_MIN_BUCKET", "type": ["null", "int"], "default": null},
  {"name": "_MAX_BUCKET", "type": ["null", "int"], "default": null},
  {"name": "_MIN_LEVEL", "type": ["null", "int"], "default": null},
  {"name": "_MAX_LEVEL", "type": ["null", "int"], "default": null},
  {"name": "_MIN_ROW_ID", "type": ["null", "long"], "default": null},
  {"name": "_MAX_ROW_ID", "type": ["null", "long"], "default": null}
]}"""
_OPTIONAL = {
    "_MIN_BUCKET": "int",
    "_MAX_BUCKET": "int",
    "_MIN_LEVEL": "int",
    "_MAX_LEVEL": "int",
    "_MIN_ROW_ID": "long",
    "_MAX_ROW_ID": "long",
}
_LAYOUT = Layout(
    {
        "_VERSION": "int",
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_NUM_ADDED_FILES": "long",
        "_NUM_DELETED_FILES": "long",
        "_PARTITION_STATS": STATISTICS_LAYOUT,
        "_SCHEMA_ID": "long",
    },
    _OPTIONAL,
)


def read_manifest_list(data: bytes, path: str) -> list[ManifestFile]:
    """The manifests that a list names, in order.

    :raises CorruptFile: the bytes are no manifest list, or it has impossible values
    """
    container = read_container(data, path, _LAYOUT)
    return [_manifest_file(row, path) for block in container.rows for row in block]


def _manifest_file(row: Row, path: str) -> ManifestFile:
    if row["_VERSION"] != VERSION:
        raise CorruptFile(path, f"an entry has _VERSION {row['_VERSION']}")
    name = require_plain_name(row["_FILE_NAME"], path)
    size, added, deleted = row["_FILE_SIZE"], row["_NUM_ADDED_FILES"], row["_NUM_DELETED_FILES"]
    if size < 0 or added < 0 or deleted < 0:
        raise CorruptFile(path, f"manifest {name!r} has size {size}, {added} additions and {deleted} deletions")
    stats = row["_PARTITION_STATS"]
    stats.setdefault("_NULL_COUNTS", None)
    bounds = (row.get(field) for field in _OPTIONAL)
    return ManifestFile(name, size, added, deleted, statistics(stats), row["_SCHEMA_ID"], *bounds)


def write_manifest_list(files: Iterable[ManifestFile], compression: str) -> bytes:
    """The bytes of a list of these manifests."""
    (data,) = write_container(SCHEMA, map(_row, files), compression)
    return data


def _row(file: ManifestFile) -> Row:
    return {
        "_VERSION": VERSION,
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size,
        "_NUM_ADDED_FILES": file.added,
        "_NUM_DELETED_FILES": file.deleted,
        "_PARTITION_STATS": statistics_row(file.partition_stats),
        "_SCHEMA_ID": file.schema_id,
        "_MIN_BUCKET": file.min_bucket,
        "_MAX_BUCKET": file.max_bucket,
        "_MIN_LEVEL": file.min_level,
        "_MAX_LEVEL": file.max_level,
        "_MIN_ROW_ID": file.min_row_id,
        "_MAX_ROW_ID": file.max_row_id,
    }
