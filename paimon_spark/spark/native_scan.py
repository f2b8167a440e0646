"""A table as one DataFrame: what needs no merging through Spark's own parquet reader, the rest through Python.

A Python source hands every row through Arrow to the JVM, with all its columns, whatever the query needs of it. A file
that needs no merging is plain parquet and a mask, and Spark's reader is twice as fast on it, prunes columns and row
groups, and counts rows without reading any. So a scan becomes a union (:mod:`paimon_spark.spark.native_plan`)::

    files of one shape and partition, no vectors    parquet scan → columns, partition literals → filter
    the same with vectors, and a few without        parquet scan → bitmaps, or else a join → …
    all that must be merged                         Python source, pinned to the same snapshot and plan; or read now

Files have one shape when their columns have the same names and types. With more than ``_SCANS`` partitions the files
of all partitions are one scan, and a second broadcast join gives each file its partition values, which come from the
manifest and never from a path.

Session settings that change what Spark reads from parquet (rebasing of dates, missing and corrupt files, globs) are set
for each scan, and page checksums are verified (:mod:`paimon_spark.spark.native_parquet`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from threading import Lock
from typing import Any

import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as spark

from paimon_spark.files.reader import check_parquet_size
from paimon_spark.metadata.deletion_vector import DeletionVector, read_deletion_vector
from paimon_spark.read.scan import Scan
from paimon_spark.rows.binary_row import decode
from paimon_spark.spark.batches import outgoing, outgoing_schema
from paimon_spark.spark.native_bitmaps import BYTES, Bitmaps, are_told_apart, bitmap_bytes, is_live
from paimon_spark.spark.native_columns import METADATA, POSITION, file_schema, fresh_name, quoted
from paimon_spark.spark.native_deletions import without_deleted
from paimon_spark.spark.native_expiry import explain_expiry
from paimon_spark.spark.native_filter import literal, row_filter
from paimon_spark.spark.native_parquet import PlannedScan, PublicScan, is_planned, open_parquet
from paimon_spark.spark.native_plan import BROADCAST_SIZE, Columns, NativeFile, NativePlan
from paimon_spark.spark.types import spark_schema

_SCANS = 32
# Files without vectors are masked like the others when they hold no more than this part of their rows: one scan less to
# plan costs more than that.
_FEW = 8
# Spark makes no job of so few, unless the session wants it.
_LISTED = 32
_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_LISTING = Lock()
_CLASSIC_SOURCES = "spark.sql.sources.useV1SourceList"
_QUOTED_PATTERNS = "spark.sql.parser.quotedRegexColumnNames"

log = logging.getLogger("paimon_spark")


def is_supported(session: Any) -> bool:
    """Whether the session can read files natively: it runs in this process (Spark Connect does not), and its parquet
    reader is the one that knows positions of rows, which the setting ``spark.sql.sources.useV1SourceList`` decides; and
    quoted names are names (``spark.sql.parser.quotedRegexColumnNames`` makes them patterns)."""
    if not isinstance(session, SparkSession) or session.conf.get(_QUOTED_PATTERNS).lower() == "true":
        return False
    return "parquet" in session.conf.get(_CLASSIC_SOURCES).replace(" ", "").lower().split(",")


def is_within_reach(session: Any, plan: NativePlan) -> bool:
    """Whether the JVM can open the files: it writes names in the encoding of its locale, which may be ASCII."""
    if all(f.path.isascii() for f in plan.files):
        return True
    return bool(session.sparkContext._jvm.System.getProperty("sun.jnu.encoding") == "UTF-8")


def log_plan(plan: NativePlan) -> None:
    """Say at level INFO how many files go which way."""
    merged = sum(len(split.files) for split in plan.rest)
    log.info(
        "snapshot %s of %s: %d files through Spark's parquet reader (%d of them with deletion vectors, %d without "
        "older versions of rows at level 0), %d files in %d splits through Python",
        plan.scan.snapshot_id,
        plan.scan.metadata.paths.root,
        len(plan.files),
        sum(f.deletion is not None for f in plan.files),
        sum(f.file.name in plan.hidden for f in plan.files),
        merged,
        len(plan.rest),
    )


@dataclass(frozen=True)
class Group:
    """The files of one parquet scan: of one shape, and of one partition unless that is None, because partition values
    are joined. Rows of ``is_masked`` ones are left out by their position."""

    files: Sequence[NativeFile]
    columns: Columns
    partition: bytes | None
    is_masked: bool


Vectors = list[tuple[NativeFile, DeletionVector]]


@dataclass(frozen=True)
class NativeScan:
    """The DataFrame of the native part of a scan. Requires: the plan has files."""

    session: Any
    plan: NativePlan

    def frame(self) -> Any:
        """The rows of the plan's files that satisfy the filter, with the columns of the scan.

        :raises NotFound: a file is gone, because the snapshot has expired
        :raises CorruptFile: a deletion vector is damaged, or a file with one has not the size it was written with
        """
        return self.begun()()

    def begun(self) -> Callable[[], Any]:
        """What makes the :meth:`frame`, once Spark has looked at the files. What Spark and the JVM do not do, such as
        the search for older versions, is done beside, and perhaps not yet done.

        :raises NotFound: a file is gone, because the snapshot has expired
        """
        explain_expiry(self.scan, self.plan.files)
        groups = list(self._groups())
        beside = ThreadPoolExecutor(1)
        try:
            masks = [beside.submit(self._mask, group) if group.is_masked else None for group in groups]
            with self._listed_here():
                loaded = [self._load(group) for group in groups]
        finally:
            beside.shutdown(wait=False)
        return partial(self._union, groups, loaded, masks)

    def _union(
        self,
        groups: Sequence[Group],
        loaded: Sequence[PlannedScan | PublicScan],
        masks: Sequence[Future[Bitmaps | Vectors] | None],
    ) -> Any:
        found = [None if mask is None else mask.result() for mask in masks]
        frames = [self._live(rows, group, mask) for rows, group, mask in zip(loaded, groups, found, strict=True)]
        frame = reduce(lambda one, other: one.union(other), frames)
        columns = spark_schema([self.scan.table_schema.field(name) for name in self.scan.columns]).fields
        if any(c.metadata for c in columns):
            # withMetadata() takes a name for an expression.
            frame = frame.select(*(F.col(quoted(c.name)).alias(c.name, metadata=c.metadata) for c in columns))
        return frame

    @property
    def scan(self) -> Scan:
        """The scan of the plan."""
        return self.plan.scan

    def _groups(self) -> Iterator[Group]:
        shapes: dict[tuple[Columns, bytes | None], list[NativeFile]] = {}
        for file in self.plan.files:
            partition = None if self._partitions_joined else file.partition
            shapes.setdefault((file.columns, partition), []).append(file)
        for (columns, partition), files in shapes.items():
            for part, is_masked in self._parts(files):
                yield Group(part, columns, partition, is_masked)

    def _parts(self, files: Sequence[NativeFile]) -> Iterator[tuple[Sequence[NativeFile], bool]]:
        """``files`` as those that are masked, and those that are not. It is not always asked which they are: that needs
        the older versions."""
        masked = [f for f in files if f.deletion]
        if not self._are_most(masked, files):
            masked = [f for f in files if self.plan.is_masked(f)]
        if self._are_most(masked, files):
            yield files, True
            return
        others = [f for f in files if not self.plan.is_masked(f)]
        yield from ((part, part is masked) for part in (masked, others) if part)

    def _are_most(self, masked: Sequence[NativeFile], files: Sequence[NativeFile]) -> bool:
        """Whether ``masked`` has so many of the rows of ``files`` that all are masked."""
        most = _row_count(masked)
        return most > 0 and (_row_count(files) - most) * _FEW <= most and self._has_bitmaps(files)

    # ------------------------------------------------------------------ one parquet scan

    def _live(self, rows: PlannedScan | PublicScan, group: Group, mask: Bitmaps | Vectors | None) -> Any:
        """The rows of the table among those of the parquet scan ``rows``."""
        columns, partition = group.columns, group.partition
        names = [*(c.name for c in columns), *self._partition_names]
        file = fresh_name("file", names)
        joined = isinstance(mask, list)
        chosen = [c.sql for c in columns]
        if joined:
            chosen.append(POSITION)
        if partition is None or joined:
            chosen.append(f"xxhash64({METADATA}.file_name) AS {quoted(file)}")
        if isinstance(mask, Bitmaps):
            assert isinstance(rows, PlannedScan)
            rows = rows.where(is_live(self.session, mask))
        frame = rows.select(chosen)
        if isinstance(mask, list):
            frame = without_deleted(self.session, frame, file, [(f.number, vector) for f, vector in mask])
        if partition is None:
            frame = frame.join(F.broadcast(self._partition_frame(file)), file, "inner")
        elif self._partition_names:
            frame = frame.withColumns(self._partition_literals[partition])
        if self.scan.predicate is not None:
            frame = frame.where(self._condition)
        as_they_are = not joined and partition is not None and names == list(self.scan.columns)
        return frame if as_they_are else frame.selectExpr(*map(quoted, self.scan.columns))

    def _load(self, group: Group) -> PlannedScan | PublicScan:
        try:
            schema = file_schema(group.columns, group.is_masked)
            return open_parquet(self.session, schema, [f.path for f in group.files])
        except FileNotFoundError as missing:
            raise self.scan.expired(str(missing)) from None

    @contextmanager
    def _listed_here(self) -> Iterator[None]:
        """Files are looked up one by one on the driver: as a job, ten thousand of them are ten thousand tasks. Threads
        take turns, or one would restore what another has set."""
        if len(self.plan.files) <= _LISTED:
            yield
            return
        with _LISTING:
            before = self.session.conf.get(_LISTING_THRESHOLD)
            self.session.conf.set(_LISTING_THRESHOLD, str(2**31 - 1))
            try:
                yield
            finally:
                self.session.conf.set(_LISTING_THRESHOLD, before)

    # ------------------------------------------------------------------ deleted rows

    def _has_bitmaps(self, files: Sequence[NativeFile]) -> bool:
        """Whether deleted rows of these files are found in bitmaps, and not by a join."""
        return self._bitmaps_fit and are_told_apart([f.file.size for f in files]) and is_planned(self.session)

    def _mask(self, group: Group) -> Bitmaps | Vectors:
        """The rows to leave out of a masked group. Asks nothing of the JVM.

        :raises CorruptFile: a file is not as its bitmap takes it to be: by its bytes, and with so many rows
        """
        storage = self.scan.metadata.storage
        with self.scan.expiry_explained():
            if not self._has_bitmaps(group.files):
                return [(f, self._vector(f)) for f in group.files]
            for f in group.files:
                check_parquet_size(storage, f.path, f.file)
            return Bitmaps.of([(f.file, self._vector(f)) for f in group.files])

    @cached_property
    def _bitmaps_fit(self) -> bool:
        limit = min(BYTES, self.scan.table_schema.options.get_option(BROADCAST_SIZE))
        masked = sum(bitmap_bytes(f.file.row_count) for f in self.plan.files if f.may_be_masked)
        return masked + masked // _FEW <= limit

    def _vector(self, file: NativeFile) -> DeletionVector:
        hidden = self.plan.hidden.get(file.file.name, BitMap())
        if file.deletion is None:
            return DeletionVector(hidden)
        return read_deletion_vector(self.scan.metadata.storage, file.deletion, file.file.row_count).union(hidden)

    @cached_property
    def _condition(self) -> Any:
        assert self.scan.predicate is not None
        types = {f.name: f.type for f in self.scan.table_schema.fields}
        return row_filter(self.scan.predicate, types, lambda name: F.col(quoted(name)))

    # ------------------------------------------------------------------ partition values

    @cached_property
    def _partition_names(self) -> list[str]:
        return [f.name for f in self.scan.table_schema.partition_fields]

    @cached_property
    def _partitions(self) -> list[bytes]:
        return list(dict.fromkeys(f.partition for f in self.plan.files))

    @property
    def _partitions_joined(self) -> bool:
        return len(self._partitions) > _SCANS

    @cached_property
    def _partition_columns(self) -> list[pa.Array]:
        return decode(self._partitions, [f.type for f in self.scan.table_schema.partition_fields])

    @cached_property
    def _partition_literals(self) -> Mapping[bytes, Mapping[str, Any]]:
        fields = self.scan.table_schema.partition_fields
        columns = self._partition_columns
        return {
            partition: {f.name: literal(column[i], f.type) for f, column in zip(fields, columns, strict=True)}
            for i, partition in enumerate(self._partitions)
        }

    def _partition_frame(self, file: str) -> Any:
        """The partition values of all files, by the number of the file."""
        fields = self.scan.table_schema.partition_fields
        at = {partition: i for i, partition in enumerate(self._partitions)}
        rows = pa.array([at[f.partition] for f in self.plan.files])
        numbers = pa.array([f.number for f in self.plan.files], pa.int64())
        values = [column.take(rows) for column in self._partition_columns]
        schema = spark_schema(fields).add(spark.StructField(file, spark.LongType()))
        nullable = spark.StructType([spark.StructField(f.name, f.dataType) for f in schema.fields])
        batch = pa.RecordBatch.from_arrays([*values, numbers], names=nullable.fieldNames())
        return self.session.createDataFrame(
            pa.Table.from_batches([outgoing(batch, outgoing_schema(nullable))]), nullable
        )


def _row_count(files: Sequence[NativeFile]) -> int:
    return sum(f.file.row_count for f in files)
