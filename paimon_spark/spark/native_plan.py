"""NativePlan: which files of a scan Spark's own parquet reader reads, and what is left for the Python source.

A file goes to Spark when its rows are rows of the table, once those that its deletion vector names are gone: no file
that is left in the plan overlaps it, and it holds no deletes. Where only a few rows of level 0 overlap it, it goes to
Spark without the older versions of these (:mod:`paimon_spark.spark.native_level0`). It must be parquet, its columns
must be ones that Spark reads exactly as this package does (:mod:`paimon_spark.spark.native_columns`), and its name must
be one that Spark neither hides nor escapes. Vectors are broadcast to every executor: files have their turn, the one
with the smallest vector first, as long as all fit in ``scan.native.broadcast-size``.

The same scan always makes the same plan: the driver, which gives Spark the files, and the Python source, which reads
the rest, each make their own. Older versions are searched when they are asked for; the source is told those that the
driver has found.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from threading import Lock

from pyroaring import BitMap

from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.locations import bucket_directory, data_file_path
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.vector_range import DeletionVectorRef
from paimon_spark.options import MB, Option, parse_bool, parse_memory
from paimon_spark.read.scan import Scan
from paimon_spark.read.split import Split
from paimon_spark.spark.native_columns import FileColumn, is_native, native_columns
from paimon_spark.spark.native_deletions import NUMBER_SHIFT, broadcast_bytes
from paimon_spark.spark.native_hash import file_number
from paimon_spark.spark.native_level0 import CoveredSection, Place, Positions, covered_sections
from paimon_spark.storage.local import LocalStorage
from paimon_spark.types import DataField

NATIVE = Option("scan.native", True, parse_bool)
BROADCAST_SIZE: Option[int] = Option("scan.native.broadcast-size", 64 * MB, parse_memory)

SHAPES = 16
# Sections whose older versions are searched at once.
_SEARCHES = 4
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")

Columns = tuple[FileColumn, ...]


@dataclass(frozen=True)
class NativeFile:
    """A file for Spark: where it is, what number Spark makes of its name, how its columns are read, its partition, its
    deletion vector if it has one, and whether it may have older versions of rows of level 0."""

    path: str
    number: int
    file: DataFile
    columns: Columns
    partition: bytes
    deletion: DeletionVectorRef | None
    is_covered: bool = False

    @property
    def may_be_masked(self) -> bool:
        """Whether Spark has to leave out rows, as far as is known before older versions are searched."""
        return self.deletion is not None or self.is_covered


@dataclass(frozen=True)
class NativePlan:
    """``files`` are for Spark's reader, ``rest`` for the Python source; together they are the ``splits`` of ``scan``.

    Parted between the two are the ``covered`` sections. In each of them ``older`` has, by the name of a file, where the
    older versions of the rows at level 0 are: ``told`` by another plan of these splits, or searched, which reads keys.
    """

    scan: Scan
    splits: Sequence[Split]
    files: tuple[NativeFile, ...]
    covered: Mapping[Place, CoveredSection] = field(default_factory=dict)
    told: Mapping[Place, Positions] | None = None
    _search: Lock = field(default_factory=Lock, repr=False, compare=False)

    @classmethod
    def of(cls, scan: Scan, splits: Sequence[Split], told: Mapping[Place, Positions] | None = None) -> NativePlan:
        """The plan of the ``splits`` of ``scan``. Reads no data file.

        :raises NotFound: a schema is gone
        """
        if not _is_possible(scan):
            return cls(scan, splits, ())
        covered = covered_sections(scan, splits)
        found = _of_few_shapes(_told_apart(_candidates(scan, splits, covered), splits))
        limit = scan.table_schema.options.get_option(BROADCAST_SIZE)
        new_rows = _new_rows(covered)
        chosen, covered = _settled(_broadcastable(found, new_rows, limit), covered)
        files = tuple(replace(f, is_covered=True) if f.file.name in new_rows else f for f in chosen)
        return cls(scan, splits, files, covered, told)

    @property
    def fingerprint(self) -> str:
        """The same for two plans of one scan that give Spark the same files."""
        names = "\n".join(f.file.name for f in self.files)
        return hashlib.blake2b(names.encode(), digest_size=16).hexdigest()

    @property
    def older(self) -> Mapping[Place, Positions]:
        """Several threads may ask; one searches, the others wait.

        :raises NotFound: a file is gone, because the snapshot has expired
        :raises CorruptFile: a file with keys is damaged
        """
        with self._search:
            return self._older

    @cached_property
    def _older(self) -> Mapping[Place, Positions]:
        if self.told is not None:
            return self.told
        with ThreadPoolExecutor(_SEARCHES) as pool:
            found = pool.map(lambda section: section.older(self.scan), self.covered.values())
            return dict(zip(self.covered, found, strict=True))

    def _older_at(self, place: Place) -> Positions:
        return self.older[place]

    @cached_property
    def hidden(self) -> Mapping[str, BitMap]:
        """The rows of Spark's files that are older versions: their positions, by the name of the file."""
        return {name: rows for positions in self.older.values() for name, rows in positions.items()}

    def is_masked(self, file: NativeFile) -> bool:
        """Whether Spark has to leave out rows of one of ``files``."""
        return file.deletion is not None or file.file.name in self.hidden

    @cached_property
    def rest(self) -> tuple[Split, ...]:
        """The splits without Spark's files, and with what is left of covered sections."""
        return tuple(self._rest())

    def _rest(self) -> Iterator[Split]:
        names = {f.file.name for f in self.files}
        for number, split in enumerate(self.splits):
            left: list[tuple[DataFile, ...]] = []
            chosen: dict[str, BitMap] = {}
            for at, section in enumerate(split.sections):
                if (number, at) in self.covered:
                    covered = self.covered[number, at]
                    section, positions = covered.rest(self.scan.table_schema, partial(self._older_at, (number, at)))
                    chosen.update(positions)
                if len(section) > 1 or (section and section[0].name not in names):
                    left.append(section)
            if left:
                files = {file.name for section in left for file in section}
                deletions = {name: ref for name, ref in split.deletions.items() if name in files}
                yield replace(split, sections=tuple(left), deletions=deletions, chosen=chosen)


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


def _candidates(scan: Scan, splits: Iterable[Split], covered: Mapping[Place, CoveredSection]) -> Iterator[NativeFile]:
    """Files that can be read on their own, of a schema that Spark reads exactly."""
    schema, paths = scan.table_schema, scan.metadata.paths
    wanted = _wanted_fields(scan)
    shapes: dict[int, Columns | None] = {}
    for number, split in enumerate(splits):
        directory = bucket_directory(paths, schema, split.partition, split.bucket)
        for file in _readable_files(number, split, covered, schema):
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


def _readable_files(
    number: int, split: Split, covered: Mapping[Place, CoveredSection], schema: TableSchema
) -> Iterator[DataFile]:
    """The files that overlap no other, and those of covered sections, which hold no deletes, if Spark shows their names
    as they are. ``number`` is that of the split."""
    for at, section in enumerate(split.sections):
        over = covered.get((number, at))
        files = section if len(section) == 1 else over.files(schema) if over else ()
        yield from (f for f in files if f.delete_row_count == 0 and _PLAIN_NAME.fullmatch(f.name))


def _told_apart(files: Iterable[NativeFile], splits: Iterable[Split]) -> list[NativeFile]:
    """Without files of a name that ``splits`` have twice, and those whose numbers are alike, by which Spark's rows are
    told apart."""
    names = Counter(file.name for split in splits for file in split.files)
    found = [f for f in files if names[f.file.name] == 1]
    alike = Counter(f.number >> NUMBER_SHIFT for f in found)
    return [f for f in found if alike[f.number >> NUMBER_SHIFT] == 1]


def _of_few_shapes(files: list[NativeFile]) -> list[NativeFile]:
    """The files of the ``SHAPES`` most frequent shapes: every shape is a scan of its own."""
    frequent = {shape for shape, _ in Counter(f.columns for f in files).most_common(SHAPES)}
    return [f for f in files if f.columns in frequent]


def _new_rows(covered: Mapping[Place, CoveredSection]) -> dict[str, int]:
    """How many rows of level 0 may have an older version in a file, by its name."""
    return {file.name: section.new_rows for section in covered.values() for file in section.upper if section.new}


def _broadcastable(files: Sequence[NativeFile], new_rows: Mapping[str, int], limit: int) -> list[NativeFile]:
    """Without the files whose vectors do not fit any more when the smaller ones are in."""
    sizes = {
        f.file.name: broadcast_bytes(f.deletion, new_rows.get(f.file.name, 0), f.file.row_count)
        for f in files
        if f.deletion or f.file.name in new_rows
    }
    refused = set()
    total = 0
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        total += sizes[name]
        if total > limit:
            refused.add(name)
    return [f for f in files if f.file.name not in refused]


def _settled(
    files: Sequence[NativeFile], covered: Mapping[Place, CoveredSection]
) -> tuple[list[NativeFile], dict[Place, CoveredSection]]:
    """The covered sections of which Spark can read all files, and the files without those of the others."""
    names = {f.file.name for f in files}
    settled = {place: s for place, s in covered.items() if names.issuperset(f.name for f in s.upper)}
    refused = {f.name for place, s in covered.items() if place not in settled for f in (*s.new, *s.upper)}
    return [f for f in files if f.file.name not in refused], settled
