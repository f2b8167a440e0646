"""Manifests: files that list additions and deletions of data files.

A manifest is an Avro container (see :mod:`paimon_spark.metadata.avro`) of rows::

    _VERSION int = 2 | _KIND int (0 add, 1 delete) | _PARTITION bytes | _BUCKET int | _TOTAL_BUCKETS int | _FILE record

``_PARTITION`` is a serialized BinaryRow, ``_FILE`` the data file; its fields grew from 16 in Paimon 0.9 to 21. They are
found by name: unknown ones are skipped, missing ones are None.

Source: ``ManifestEntry``, ``ManifestEntrySerializer``, ``DataFileMeta``, ``FileEntry`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.avro import Row, read_container
from paimon_spark.metadata.avro_schema import Layout
from paimon_spark.metadata.data_file import DataFile, Statistics
from paimon_spark.metadata.file_name import is_plain_name

ADD, DELETE = 0, 1
VERSION = 2

Identifier = tuple[object, ...]
KeepEntry = Callable[[bytes, int, int], bool]
"""Decides by (partition, bucket, total buckets) whether an entry is wanted."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One data file added (ADD) to or removed (DELETE) from a bucket of a partition.

    ``partition`` is a serialized BinaryRow, compared as bytes. ``total_buckets`` is the table's bucket number when
    the file was written; zero or less where buckets are not fixed.
    """

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile

    @property
    def identifier(self) -> Identifier:
        """What makes two entries speak of the same file at the same level."""
        file = self.file
        if not file.extra_files and file.embedded_index is None and file.external_path is None:
            return (self.partition, self.bucket, file.level, file.name)
        extra = (file.extra_files, file.embedded_index, file.external_path)
        return (self.partition, self.bucket, file.level, file.name, *extra)

    def deleted(self) -> ManifestEntry:
        """The entry that removes what this one added."""
        return replace(self, kind=DELETE)


# --------------------------------------------------------------------------- bytes

_STATS = (
    '{"type": "record", "name": "record_%s", "fields": [{"name": "_MIN_VALUES", "type": "bytes"}, '
    '{"name": "_MAX_VALUES", "type": "bytes"}, {"name": "_NULL_COUNTS", '
    '"type": ["null", {"type": "array", "items": ["null", "long"]}], "default": null}]}'
)
SCHEMA = (
    """{"type": "record", "name": "record", "namespace": "org.apache.paimon.avro.generated", "fields": [
  {"name": "_VERSION", "type": "int"},
  {"name": "_KIND", "type": "int"},
  {"name": "_PARTITION", "type": "bytes"},
  {"name": "_BUCKET", "type": "int"},
  {"name": "_TOTAL_BUCKETS", "type": "int"},
  {"name": "_FILE", "type": {"type": "record", "name": "record__FILE", "fields": [
    {"name": "_FILE_NAME", "type": "string"},
    {"name": "_FILE_SIZE", "type": "long"},
    {"name": "_ROW_COUNT", "type": "long"},
    {"name": "_MIN_KEY", "type": "bytes"},
    {"name": "_MAX_KEY", "type": "bytes"},
    {"name": "_KEY_STATS", "type": """
    + _STATS % "_FILE__KEY_STATS"
    + """},
    {"name": "_VALUE_STATS", "type": """
    + _STATS % "_FILE__VALUE_STATS"
    + """},
    {"name": "_MIN_SEQUENCE_NUMBER", "type": "long"},
    {"name": "_MAX_SEQUENCE_NUMBER", "type": "long"},
    {"name": "_SCHEMA_ID", "type": "long"},
    {"name": "_LEVEL", "type": "int"},
    {"name": "_EXTRA_FILES", "type": {"type": "array", "items": "string"}},
    {"name": "_CREATION_TIME", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": null},
    {"name": "_DELETE_ROW_COUNT", "type": ["null", "long"], "default": null},
    {"name": "_EMBEDDED_FILE_INDEX", "type": ["null", "bytes"], "default": null},
    {"name": "_FILE_SOURCE", "type": ["null", "int"], "default": null},
    {"name": "_VALUE_STATS_COLS", "type": ["null", {"type": "array", "items": "string"}], "default": null},
    {"name": "_EXTERNAL_PATH", "type": ["null", "string"], "default": null},
    {"name": "_FIRST_ROW_ID", "type": ["null", "long"], "default": null},
    {"name": "_WRITE_COLS", "type": ["null", {"type": "array", "items": "string"}], "default": null}
  ]}}
]}"""
)
STATISTICS_LAYOUT = Layout(
    {"_MIN_VALUES": "bytes", "_MAX_VALUES": "bytes"},
    {"_NULL_COUNTS": ["long", "null"]},
)
_FILE_LAYOUT = Layout(
    {
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_ROW_COUNT": "long",
        "_MIN_KEY": "bytes",
        "_MAX_KEY": "bytes",
        "_KEY_STATS": STATISTICS_LAYOUT,
        "_VALUE_STATS": STATISTICS_LAYOUT,
        "_MIN_SEQUENCE_NUMBER": "long",
        "_MAX_SEQUENCE_NUMBER": "long",
        "_SCHEMA_ID": "long",
        "_LEVEL": "int",
    },
    {
        "_EXTRA_FILES": ["string"],
        "_CREATION_TIME": "long",
        "_DELETE_ROW_COUNT": "long",
        "_EMBEDDED_FILE_INDEX": "bytes",
        "_FILE_SOURCE": "int",
        "_VALUE_STATS_COLS": ["string"],
        "_EXTERNAL_PATH": "string",
        "_FIRST_ROW_ID": "long",
        "_WRITE_COLS": ["string"],
    },
)
_LAYOUT = Layout(
    {
        "_VERSION": "int",
        "_KIND": "int",
        "_PARTITION": "bytes",
        "_BUCKET": "int",
        "_TOTAL_BUCKETS": "int",
        "_FILE": _FILE_LAYOUT,
    },
    {},
)


def read_manifest(data: bytes, path: str, keep: KeepEntry | None = None) -> list[ManifestEntry]:
    """The entries of a manifest, in order; only those that ``keep`` wants, which is asked before a file is decoded.

    :raises CorruptFile: the bytes are no manifest, or an entry has impossible values
    """
    container = read_container(data, path, _LAYOUT)
    missing = [names[1] for names in container.missing if len(names) == 2]
    without_counts = [names[1] for names in container.missing if len(names) == 3]
    entries: list[ManifestEntry] = []
    for block in container.rows:
        for row in block:
            kind = row["_KIND"]
            if row["_VERSION"] != VERSION or kind not in (ADD, DELETE) or row["_BUCKET"] < -2:
                raise CorruptFile(path, f"an entry has {_shown(row)}")
            partition, bucket, total = row["_PARTITION"], row["_BUCKET"], row["_TOTAL_BUCKETS"]
            if keep is not None and not keep(partition, bucket, total):
                continue
            fields = row["_FILE"]
            for name in missing:
                fields[name] = None
            for name in without_counts:
                fields[name]["_NULL_COUNTS"] = None
            entries.append(ManifestEntry(kind, partition, bucket, total, _data_file(fields, path)))
    return entries


def _shown(row: Row) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if isinstance(value, int))


def _data_file(fields: Row, path: str) -> DataFile:
    name, size, rows, level = fields["_FILE_NAME"], fields["_FILE_SIZE"], fields["_ROW_COUNT"], fields["_LEVEL"]
    deletes, extra, cols, write_cols = (
        fields["_DELETE_ROW_COUNT"],
        fields["_EXTRA_FILES"],
        fields["_VALUE_STATS_COLS"],
        fields["_WRITE_COLS"],
    )
    if size < 0 or level < 0 or not 0 <= (deletes or 0) <= rows or not is_plain_name(name):
        raise CorruptFile(path, f"it lists a file {name[:200]!r} with {_shown(fields)}")
    if extra and not all(is_plain_name(file) for file in extra):
        raise CorruptFile(path, f"file {name!r} has extra files {extra!r}, which are not plain file names")
    return DataFile(
        name,
        size,
        rows,
        fields["_MIN_KEY"],
        fields["_MAX_KEY"],
        statistics(fields["_KEY_STATS"]),
        statistics(fields["_VALUE_STATS"]),
        fields["_MIN_SEQUENCE_NUMBER"],
        fields["_MAX_SEQUENCE_NUMBER"],
        fields["_SCHEMA_ID"],
        level,
        tuple(extra) if extra else (),
        fields["_CREATION_TIME"],
        deletes,
        fields["_EMBEDDED_FILE_INDEX"],
        fields["_FILE_SOURCE"],
        None if cols is None else tuple(cols),
        fields["_EXTERNAL_PATH"],
        fields["_FIRST_ROW_ID"],
        None if write_cols is None else tuple(write_cols),
    )


def statistics(fields: Row) -> Statistics:
    """Statistics of their Avro record; null counts that the record lacks are unknown for every column."""
    lower, counts = fields["_MIN_VALUES"], fields["_NULL_COUNTS"]
    if counts is None:
        counts = [None] * min(int.from_bytes(lower[:4], "big"), len(lower) // 8)
    return Statistics(lower, fields["_MAX_VALUES"], tuple(counts))


def statistics_row(stats: Statistics) -> Row:
    """The Avro record of statistics."""
    return {"_MIN_VALUES": stats.lower, "_MAX_VALUES": stats.upper, "_NULL_COUNTS": stats.null_counts}


def manifest_rows(entries: Iterable[ManifestEntry]) -> Iterator[Row]:
    """The rows of a manifest with these entries, for :data:`SCHEMA`."""
    for entry in entries:
        file = entry.file
        fields: dict[str, Any] = {
            "_FILE_NAME": file.name,
            "_FILE_SIZE": file.size,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": file.min_key,
            "_MAX_KEY": file.max_key,
            "_KEY_STATS": statistics_row(file.key_stats),
            "_VALUE_STATS": statistics_row(file.value_stats),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": file.extra_files,
            "_CREATION_TIME": file.creation_millis,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_index,
            "_FILE_SOURCE": file.source,
            "_VALUE_STATS_COLS": file.value_stats_cols,
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": file.write_cols,
        }
        yield {
            "_VERSION": VERSION,
            "_KIND": entry.kind,
            "_PARTITION": entry.partition,
            "_BUCKET": entry.bucket,
            "_TOTAL_BUCKETS": entry.total_buckets,
            "_FILE": fields,
        }
