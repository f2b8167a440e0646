"""Leftovers: files of a write that no message names.

When the rows of a task stop because something before the write failed, such as a Python function over a DataFrame, its
writer is not told. Spark ends the task's stream as if it were complete, the writer reports its files, and Spark throws
the report away and runs the task again. The old attempt may even outlive the write. So two look for its files:

- The driver, when it gives up, or commits and there may have been other attempts than those that report to it: every
  file of a write has the write's own prefix, and what has that prefix but is in no report belongs to one of them.
- The attempt, when it is done: if the write is published by then, its report is not in it, for Spark commits the
  reports of all tasks at once.

What an attempt writes after the write was given up, or in a partition that only failed attempts know of, stays; so do
the files of attempts that no sign tells of (:mod:`paimon_spark.spark.writer`). Such files are orphans, which no reader
ever sees.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence, Set

from paimon_spark.errors import PaimonError
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.locations import bucket_directory
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import BUCKET, DATA_FILE_PREFIX, Options
from paimon_spark.rows.binary_row import EMPTY_ROW
from paimon_spark.write.table_write import CommitMessage, TableWrite

Bucket = tuple[bytes, int]


def unique_prefix(options: Options) -> str:
    """A prefix for the data files of one write: the table's, and an id that no other write has."""
    return f"{options.get_option(DATA_FILE_PREFIX)}{uuid.uuid4().hex}-"


def delete_leftovers(write: TableWrite, reported: Sequence[CommitMessage], everywhere: bool) -> None:
    """Delete the write's files that ``reported`` does not name; what cannot be deleted or listed stays.

    Looks into the buckets of ``reported``, and with ``everywhere`` into all buckets of all known partitions.
    Requires: ``write`` was made under the option ``data-file.prefix`` = :func:`unique_prefix`, and no snapshot names
    a file of this write that is not in ``reported``.
    """
    entries = [entry for message in reported for entry in message.entries]
    kept = {entry.file.name for entry in entries}
    buckets = {(entry.partition, entry.bucket) for entry in entries}
    with contextlib.suppress(PaimonError):
        if everywhere:
            buckets |= _all_buckets(write, buckets)
        delete_unnamed(write.metadata, write.schema, buckets, kept)


def delete_unnamed(metadata: TableMetadata, schema: TableSchema, buckets: Iterable[Bucket], kept: Set[str]) -> None:
    """Delete all files in ``buckets`` that have the data file prefix of ``schema`` and whose names are not ``kept``.

    Requires: the prefix is a :func:`unique_prefix`.

    :raises StorageError: a directory cannot be listed, or a file not deleted
    """
    prefix = schema.options.get_option(DATA_FILE_PREFIX)
    for partition, bucket in buckets:
        directory = bucket_directory(metadata.paths, schema, partition, bucket)
        for found in metadata.storage.list(directory):
            if found.name.startswith(prefix) and found.name not in kept:
                metadata.storage.delete(f"{directory}/{found.name}")


def is_published(write: TableWrite) -> bool:
    """Whether there is a snapshot of this write already; False when that cannot be told."""
    with contextlib.suppress(PaimonError):
        return write.is_published()
    return False


def _all_buckets(write: TableWrite, buckets: set[Bucket]) -> set[Bucket]:
    partitions = {partition for partition, _ in buckets}
    if not write.schema.partition_keys:
        partitions.add(EMPTY_ROW)
    elif (snapshot := write.metadata.snapshots.latest()) is not None:
        partitions |= {entry.partition for entry in live_files(write.metadata, snapshot)}
    count = write.schema.options.get_option(BUCKET)
    return {(partition, bucket) for partition in partitions for bucket in range(count)}
