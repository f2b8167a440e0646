"""PaimonWriter: one ``df.write``, from the driver's checks over the tasks' files to the commit.

Spark copies the writer to every task, and to a fresh process for ``commit`` and for ``abort``; what one of them
learns the others do not know. Who deletes which files of a write that fails:

- An attempt whose write fails deletes its own. For other attempts see :mod:`paimon_spark.spark.leftovers`.
- When a task failed for good, ``abort`` gets None in its place, and deletes the files of the tasks that finished.
- When ``commit`` failed, Spark calls ``abort`` too, with every message. By then the commit has deleted the files, or
  has kept them since it may have been published. So an abort without a None deletes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from paimon_spark.errors import InvalidOption, PaimonError
from paimon_spark.spark.batches import incoming
from paimon_spark.spark.failures import readable
from paimon_spark.spark.leftovers import delete_leftovers, is_published
from paimon_spark.spark.options import OWNED_BUCKETS
from paimon_spark.write.table_write import CommitMessage, TableWrite


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):  # type: ignore[misc]
    """What an attempt of a task reports to the driver.

    ``attempt`` counts the attempts of the task in one run of its stage, ``attempt_id`` all attempts of the session.
    """

    message: CommitMessage
    attempt: int
    attempt_id: int


class PaimonWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes Arrow batches of one schema to one table; see :func:`paimon_spark.spark.opening.open_writer`."""

    def __init__(self, write: TableWrite, rows: pa.Schema, owned_buckets: bool = False) -> None:
        """``owned_buckets``: every bucket's rows are in one task, and the caller sees to compaction."""
        self._write = write
        self._rows = rows
        self._owned_buckets = owned_buckets

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write one task's rows; their order is their age, and a later task's rows are younger."""
        with readable():
            context = TaskContext.get()
            task = self._write.task(context.partitionId())
            try:
                for batch in iterator:
                    task.write(incoming(batch, self._rows))
                files = WrittenFiles(task.finish(), context.attemptNumber(), context.taskAttemptId())
            except BaseException:
                # A file that cannot be deleted becomes an orphan; its error would hide the one that matters.
                with suppress(PaimonError):
                    task.abort()
                raise
            if is_published(self._write):
                task.abort()
            return files

    def commit(self, messages: Sequence[WrittenFiles | None]) -> None:
        """Publish the files of all tasks as one snapshot, then compact the buckets that want it.

        :raises InvalidOption: the buckets are said to have one owner each, and one has two; nothing is published
        """
        from paimon_spark.spark.compact_touched import compact_touched

        written = [files for files in messages if files is not None]
        reported = [files.message for files in written]
        with readable():
            if self._owned_buckets:
                self._refuse_two_owners(reported)
            self._write.commit(reported)
            if self._owned_buckets or _others_were_started(written):
                delete_leftovers(self._write, reported, everywhere=False)
            if not self._owned_buckets:
                compact_touched(self._write, reported)

    def abort(self, messages: Sequence[WrittenFiles | None]) -> None:
        """Delete the files of all attempts, if a task did not finish; see the module's text."""
        if None not in messages:
            return
        reported = [files.message for files in messages if files is not None]
        with readable():
            self._write.abort(reported)
            delete_leftovers(self._write, reported, everywhere=True)

    def _refuse_two_owners(self, reported: Sequence[CommitMessage]) -> None:
        seen: set[tuple[bytes, int]] = set()
        for message in reported:
            buckets = {(entry.partition, entry.bucket) for entry in message.entries}
            if twice := seen & buckets:
                self._write.abort(reported)
                _, bucket = min(twice)
                raise InvalidOption(
                    f"option {OWNED_BUCKETS!r}: two tasks wrote bucket {bucket} of one partition, so nothing was "
                    "committed; leave the option to paimon_spark.write, which sees to that"
                )
            seen |= buckets


def _others_were_started(written: Sequence[WrittenFiles]) -> bool:
    """Whether there may have been attempts that are not among these; False only where no sign tells of them.

    A stage that Spark runs again, because the output of the one before it was lost with an executor, numbers its
    attempts from zero. But Spark starts the tasks of a stage one after the other, so when their ids have gaps, others
    were started meanwhile. Where all tasks ran again, nothing tells.
    """
    if any(files.attempt > 0 for files in written):
        return True
    ids = [files.attempt_id for files in written]
    return max(ids, default=0) - min(ids, default=0) >= max(len(ids), 1)
