"""Compaction as a Spark job: the driver plans and commits, each bucket that needs it is one task on the executors.

The loop of :mod:`paimon_spark.compact.compaction` stays on the driver: it finds the buckets, publishes one snapshot
for all of them, and repeats a round for those that somebody else changed meanwhile. Only the work goes away, the
largest buckets first. The lookup files of a task lie in the local directory of its executor, where the Python workers
of all its tasks share them; Spark tells the workers where that is.

What a task reports is a result, or an error that would be the same at every attempt. Any other error fails the task,
and Spark runs it again. An attempt that fails deletes its own files. One that is killed, or whose report is lost,
cannot; so all data files of a job have a prefix of their own, and after the commit the driver deletes what has that
prefix and is in no report. An attempt that outlives its job, for Spark has started a second copy and not yet killed the
first, finds when it is done that the job's snapshot is there, and deletes its own files. What an attempt writes after a
job that failed stays, as an orphan, and so does an index file of deletion vectors of one that was killed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from paimon_spark.compact.bucket_compaction import CompactionResult, compact_bucket
from paimon_spark.compact.bucket_state import Bucket, BucketState
from paimon_spark.compact.compaction import compact_table, new_user
from paimon_spark.errors import PaimonError, StorageError, UnsupportedFeature
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import DATA_FILE_PREFIX
from paimon_spark.spark.failures import readable
from paimon_spark.spark.leftovers import delete_unnamed, unique_prefix
from paimon_spark.table import PaimonTable

log = logging.getLogger("paimon_spark")

_APPLICATION = "compaction of a Paimon table"


def compact(
    spark: SparkSession,
    path: str,
    full: bool = False,
    partitions: Sequence[Mapping[str, Any]] | None = None,
    options: Mapping[str, str] | None = None,
) -> Snapshot | None:
    """Compact the table at ``path`` on the executors of ``spark``, one task a bucket.

    The buckets that the table's options want to be compacted or, with ``full``, all that are not one sorted run yet.
    ``partitions`` restricts this to partitions that one of these specifications, such as ``{"day": "2024-01-31"}``,
    covers. ``options`` are those of the storage and of the table, for this call. A ``write-only`` table can be
    compacted, too, and writers may go on meanwhile. Progress is logged at level INFO as ``paimon_spark``.

    :returns: the new snapshot, or None when there was nothing to do
    :raises NotFound: there is no table
    :raises InvalidInput: a specification or an option that does not fit the table
    :raises UnsupportedFeature: a feature of the table that this package does not write, or a Spark Connect session
    :raises CommitConflict: other compactions were faster, again and again; nothing is visible
    :raises CommitStateUnknown: the storage never said whether the commit took place
    """
    if not isinstance(spark, SparkSession):
        raise UnsupportedFeature(
            "a Spark Connect session cannot run this job, which needs a SparkContext; submit it with spark-submit"
        )
    given = dict(options or {})
    prefix = unique_prefix(PaimonTable.open(path, given).options)
    table = PaimonTable.open(path, {**given, DATA_FILE_PREFIX.key: prefix})
    executors = _Executors.of(spark, table, full)
    try:
        return table.compact(full, partitions, executors, executors.user)
    finally:
        executors.delete_leftovers()


def compact_on_cluster(
    path: str,
    full: bool = False,
    partitions: Sequence[Mapping[str, Any]] | None = None,
    options: Mapping[str, str] | None = None,
) -> Snapshot | None:
    """:func:`compact` in the session of this program, which is started if there is none yet."""
    session = SparkSession.builder.appName(_APPLICATION).getOrCreate()
    return compact(session, path, full, partitions, options)


def compact_due(spark: SparkSession, table: PaimonTable) -> Snapshot | None:
    """What follows a write: compact the buckets that want it by now; a table of ``lookup-compact`` = gentle waits.

    Requires: ``table`` is open under a :func:`~paimon_spark.spark.leftovers.unique_prefix`. Raises as :func:`compact`.
    """
    executors = _Executors.of(spark, table, full=False, patient=True)
    try:
        return compact_table(table.metadata, table.table_schema, patient=True, compactor=executors, user=executors.user)
    finally:
        executors.delete_leftovers()


@dataclass(frozen=True)
class _Report:
    """What became of a bucket. Travels from a task to the driver."""

    bucket: Bucket
    result: CompactionResult | None
    error: PaimonError | None


@dataclass(frozen=True)
class _Executors:
    """Compacts buckets as tasks of a Spark job. Stays on the driver."""

    spark: Any
    metadata: TableMetadata
    schema: TableSchema
    full: bool
    patient: bool
    user: str
    base_snapshot: int
    buckets: set[Bucket] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, spark: Any, table: PaimonTable, full: bool, patient: bool = False) -> _Executors:
        """For one job on ``table``, whose snapshot is committed by ``user`` and follows ``base_snapshot``."""
        metadata, schema = table.metadata, table.table_schema
        return cls(spark, metadata, schema, full, patient, new_user(schema), metadata.snapshots.latest_id() or 0)

    def __call__(self, states: Sequence[BucketState]) -> Iterable[CompactionResult | None]:
        """What became of each bucket, in the order of ``states``.

        :raises PaimonError: the first that a task reported, or what Spark says of a task that failed at all attempts;
            the files of the other tasks are deleted
        """
        largest_first = sorted(states, key=lambda s: -sum(entry.file.size for entry in s.entries))
        root = self.metadata.paths.root
        log.info("%s: compacting %d buckets", root, len(states))
        context = self.spark.sparkContext
        progress = context.accumulator(0, _Progress(root, len(states)))
        task = _Task(self.metadata, self.schema, self.full, self.patient, self.user, self.base_snapshot, progress)
        self.buckets.update((state.partition, state.bucket) for state in states)
        reports: list[_Report] = []
        try:
            reports = context.parallelize(largest_first, len(states)).mapPartitions(task).collect()
            for report in reports:
                if report.error is not None:
                    raise report.error
        except (Py4JJavaError, PySparkException) as problem:
            raise PaimonError(f"the compaction of {root} failed: {_reason(problem)}") from problem
        except BaseException:
            for report in reports:
                if report.result is not None:
                    report.result.discard(self.metadata, self.schema)
            raise
        results = {report.bucket: report.result for report in reports}
        self.reported.update(entry.file.name for r in results.values() if r is not None for entry in r.after)
        return [results[state.partition, state.bucket] for state in states]

    def delete_leftovers(self) -> None:
        """Delete what lost attempts wrote: the job's files that no task has reported.

        Requires: the job has committed, or never will. What finishes later finds the commit."""
        with contextlib.suppress(PaimonError):
            delete_unnamed(self.metadata, self.schema, self.buckets, self.reported)


@dataclass(frozen=True)
class _Task:
    """The work of the executors."""

    metadata: TableMetadata
    schema: TableSchema
    full: bool
    patient: bool
    user: str
    base_snapshot: int
    progress: Any

    def __call__(self, states: Iterator[BucketState]) -> Iterator[_Report]:
        for state in states:
            yield self._report(state)
            self.progress.add(1)

    def _report(self, state: BucketState) -> _Report:
        bucket = (state.partition, state.bucket)
        try:
            with readable():
                result = compact_bucket(self.metadata, self.schema, state, full=self.full, patient=self.patient)
            if result is not None and self._is_published():
                result.discard(self.metadata, self.schema)
            return _Report(bucket, result, None)
        except StorageError:
            raise
        except PaimonError as error:
            return _Report(bucket, None, error)

    def _is_published(self) -> bool:
        """Whether the job has committed, so that what this task made is not in it; False when that cannot be told."""
        with contextlib.suppress(PaimonError):
            return self.metadata.snapshots.has_commit(self.user, self.base_snapshot)
        return False


def _reason(problem: Exception) -> str:
    """What Spark says, without the stack traces of the JVM."""
    text = problem.java_exception.getMessage() if isinstance(problem, Py4JJavaError) else str(problem)
    return str(text).split("\n\tat ")[0].strip()


class _Progress(AccumulatorParam[int]):  # type: ignore[misc]
    """Counts buckets, and says on the driver how many are done whenever a task tells."""

    def __init__(self, root: str, total: int) -> None:
        self._root = root
        self._total = total

    def zero(self, value: int) -> int:
        """Nothing is done."""
        return 0

    def addInPlace(self, value1: int, value2: int) -> int:  # noqa: N802
        """The sum."""
        done = value1 + value2
        if TaskContext.get() is None and value2:
            log.info("%s: %d of %d buckets compacted", self._root, done, self._total)
        return done
