"""NativePlan: which files of a scan Spark's own parquet reader reads, and what is left for the Python source.

A file goes to Spark when its rows are rows of the table, once those that its deletion vector names are gone: no file
that is left in the plan overlaps it, and it holds no deletes. It must be parquet, its columns must be ones that Spark
reads exactly as this package does (:mod:`paimon_spark.spark.native_columns`), and its name must be one that Spark
neither hides nor escapes. Vectors are broadcast to every executor: files have their turn, the one with the smallest
vector first, as long as all fit in ``scan.native.broadcast-size``.

The same scan always makes the same plan: the driver, which gives Spark the files, and the Python source, which reads
the rest, each make their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.locations import bucket_directory, data_file_path
from paimon_spark.metadata.vector_range import DeletionVectorRef
from paimon_spark.options import MB, Option, parse_bool, parse_memory
from paimon_spark.read.scan import Scan
from paimon_spark.read.split import Split
from paimon_spark.spark.native_columns import FileColumn, is_native, native_columns
from paimon_spark.spark.native_deletions import NUMBER_SHIFT, broadcast_bytes
from paimon_spark.spark.native_hash import file_number
from paimon_spark.storage.local import LocalStorage
from paimon_spark.types import DataField

NATIVE = Option("scan.native", True, parse_bool)
BROADCAST_SIZE: Option[int] = Option("scan.native.broadcast-size", 64 * MB, parse_memory)

SHAPES = 16
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")

Columns = tuple[FileColumn, ...]


@dataclass(frozen=True)
class NativeFile:
    """A file for Spark: where it is, what number Spark makes of its name, how its columns are read, its partition, and
    its deletion vector if it has one."""

    path: str
    number: int
    file: DataFile
    columns: Columns
    partition: bytes
    deletion: DeletionVectorRef | None


@dataclass(frozen=True)
class NativePlan:
    """``files`` are for Spark's reader, ``rest`` for the Python source; together they are the scan."""

    files: tuple[NativeFile, ...]
    rest: tuple[Split, ...]

    @classmethod
    def of(cls, scan: Scan, splits: Sequence[Split]) -> NativePlan:
        """The plan of the ``splits`` of ``scan``.

        :raises NotFound: a schema is gone
        """
        if not _is_possible(scan):
            return cls((), tuple(splits))
        found = _of_few_shapes(_told_apart(_candidates(scan, splits)))
        chosen = _broadcastable(found, scan.table_schema.options.get_option(BROADCAST_SIZE))
        return cls(tuple(chosen), tuple(_without(splits, {f.file.name for f in chosen})))


def _is_possible(scan: Scan) -> bool:
    """Whether Spark may read any file: it is not forbidden, files are local and partition values can be literals."""
    schema = scan.table_schema
    local = isinstance(scan.metadata.storage, LocalStorage)
    return local and schema.options.get_option(NATIVE) and all(is_native(f.type) for f in schema.partition_fields)


def _wanted_fields(scan: Scan) -> tuple[DataField, ...]:
    """The columns that a file has to give: those selected and those of the filter, without partition columns."""
    names = {*scan.columns, *(scan.predicate.columns if scan.predicate else ())}
    schema = scan.table_schema
    return tuple(f for f in schema.fields if f.name in names and f.name not in schema.partition_keys)


def _candidates(scan: Scan, splits: Iterable[Split]) -> Iterator[NativeFile]:
    """Files that can be read on their own, of a schema that Spark reads exactly."""
    schema, paths = scan.table_schema, scan.metadata.paths
    wanted = _wanted_fields(scan)
    shapes: dict[int, Columns | None] = {}
    for split in splits:
        directory = bucket_directory(paths, schema, split.partition, split.bucket)
        for file in _lone_files(split):
            if file.schema_id not in shapes:
                written = schema if file.schema_id == schema.id else scan.metadata.schemas.get(file.schema_id)
                shapes[file.schema_id] = native_columns(written, wanted)
            columns = shapes[file.schema_id]
            if columns is None:
                continue
            if file.external_path is None:
                path = paths.data_file(directory, file)
            else:
                path = data_file_path(paths, schema, split.partition, split.bucket, file)
            yield NativeFile(
                path, file_number(file.name), file, columns, split.partition, split.deletions.get(file.name)
            )


def _lone_files(split: Split) -> Iterator[DataFile]:
    """The files that overlap no other and hold no deletes, if Spark shows their names as they are."""
    for section in split.sections:
        file = section[0]
        if len(section) == 1 and file.delete_row_count == 0 and _PLAIN_NAME.fullmatch(file.name):
            yield file


def _told_apart(files: Iterable[NativeFile]) -> list[NativeFile]:
    """Without files whose numbers are alike, by which Spark's rows are told apart: those of one name, for instance."""
    found = list(files)
    alike = Counter(f.number >> NUMBER_SHIFT for f in found)
    return [f for f in found if alike[f.number >> NUMBER_SHIFT] == 1]


def _of_few_shapes(files: list[NativeFile]) -> list[NativeFile]:
    """The files of the ``SHAPES`` most frequent shapes: every shape is a scan of its own."""
    frequent = {shape for shape, _ in Counter(f.columns for f in files).most_common(SHAPES)}
    return [f for f in files if f.columns in frequent]


def _broadcastable(files: Sequence[NativeFile], limit: int) -> list[NativeFile]:
    """Without the files whose vectors do not fit any more when the smaller ones are in."""
    sizes = {f.file.name: broadcast_bytes(f.deletion, f.file.row_count) for f in files if f.deletion}
    refused = set()
    total = 0
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        total += sizes[name]
        if total > limit:
            refused.add(name)
    return [f for f in files if f.file.name not in refused]


def _without(splits: Iterable[Split], names: set[str]) -> Iterator[Split]:
    """The splits without the sections of those lone files."""
    for split in splits:
        left = tuple(s for s in split.sections if len(s) > 1 or s[0].name not in names)
        if left:
            files = {file.name for section in left for file in section}
            deletions = {name: ref for name, ref in split.deletions.items() if name in files}
            yield replace(split, sections=left, deletions=deletions)
