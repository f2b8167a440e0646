"""TableWrite: one write of a table, from the driver's plan over the tasks' files to the commit.

The driver makes a :class:`TableWrite`, which fixes the commit user and the first sequence number. Each task asks
it for a :class:`TaskWriter`, hands over its rows and returns a :class:`CommitMessage`. The driver commits all
messages as one snapshot. All three classes travel between processes; none holds anything open.

Sequence numbers: task ``n`` of a write counts from ``base + n * 2**32``, so no two rows of a write share one,
however many tasks meet in a bucket, and of two tasks the later one wins. ``base`` is one more than the greatest
number in the table. A table outlasts ten million writes of 200 tasks before the 63 bits are used up.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_spark.errors import CommitStateUnknown, InvalidInput, PaimonError
from paimon_spark.metadata.commit import BATCH_IDENTIFIER, Committer, max_sequence
from paimon_spark.metadata.locations import bucket_directory
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import COMMIT_FORCE_SNAPSHOT, COMMIT_USER_PREFIX
from paimon_spark.write.incoming import Incoming, check_columns
from paimon_spark.write.overwrite import Overwrite
from paimon_spark.write.write_buffer import WriteBuffer, sequence_numbers

ROWS_PER_TASK = 2**32
_LARGEST_SEQUENCE = 2**63 - 1


@dataclass(frozen=True)
class CommitMessage:
    """The files that one task wrote."""

    entries: tuple[ManifestEntry, ...]


@dataclass
class TaskWriter:
    """Writes one task's rows; the order of the rows is their age. Use it as: write…, then finish or abort."""

    metadata: TableMetadata
    schema: TableSchema
    first_sequence: int

    def __post_init__(self) -> None:
        self._incoming = Incoming(self.schema)
        self._buffer = WriteBuffer(self.metadata, self.schema)
        self._rows = 0

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take a batch; its columns are matched by name, cast and checked.

        :raises InvalidInput: the data does not fit the table
        """
        from_task = self._rows + batch.num_rows
        if from_task > ROWS_PER_TASK:
            raise InvalidInput(f"one task wrote more than {ROWS_PER_TASK} rows; repartition the data over more tasks")
        rows = self._incoming.rows(batch)
        self._buffer.add(rows.with_sequence(sequence_numbers(self.first_sequence + self._rows, len(rows))))
        self._rows = from_task

    def finish(self) -> CommitMessage:
        """Write what is buffered and return the files of this task."""
        self._buffer.flush()
        return CommitMessage(self._buffer.entries())

    def abort(self) -> None:
        """Delete everything that this task wrote."""
        self._buffer.abort()


@dataclass
class TableWrite:
    """One write of a table; see the module's text. Made by ``PaimonTable.new_write``."""

    metadata: TableMetadata
    schema: TableSchema
    overwrite: Overwrite | None
    user: str
    base_snapshot: int
    base_sequence: int
    _outcome_unknown: bool = field(default=False, init=False)
    _published: bool = field(default=False, init=False)

    @classmethod
    def begin(cls, metadata: TableMetadata, schema: TableSchema, overwrite: Overwrite | None = None) -> TableWrite:
        """A new write upon the newest snapshot."""
        prefix = schema.options.get_option(COMMIT_USER_PREFIX)
        user = f"{prefix}_{uuid.uuid4()}" if prefix else str(uuid.uuid4())
        latest = metadata.snapshots.latest()
        if latest is None:
            return cls(metadata, schema, overwrite, user, 0, 0)
        return cls(metadata, schema, overwrite, user, latest.id, max_sequence(metadata, latest) + 1)

    def check(self, data: pa.Schema) -> None:
        """Refuse data that can never be written, before any of it is.

        :raises InvalidInput: every problem of the schema in one message
        """
        check_columns(self.schema, data)

    def task(self, number: int) -> TaskWriter:
        """The writer of task ``number``; the numbers of one write's tasks are distinct and not negative.

        :raises InvalidInput: the table's sequence numbers are used up
        """
        first = self.base_sequence + number * ROWS_PER_TASK
        if first > _LARGEST_SEQUENCE - ROWS_PER_TASK:
            raise InvalidInput(f"the sequence numbers of the table are used up (task {number} would start at {first})")
        return TaskWriter(self.metadata, self.schema, first)

    def commit(self, messages: Sequence[CommitMessage], identifier: int = BATCH_IDENTIFIER) -> Snapshot | None:
        """Publish the tasks' files as one snapshot; None when there is nothing to publish.

        When this raises anything but :class:`CommitStateUnknown`, nothing is visible and the files are deleted.

        :raises CommitConflict: another commit changed what this one is built upon
        :raises CommitStateUnknown: the storage never said whether the snapshot was published; the files are kept
        """
        entries = [entry for message in messages for entry in message.entries]
        committer = Committer(self.metadata, self.schema, self.user)
        known = (self.base_snapshot, self.base_sequence - 1)
        try:
            if self.overwrite is not None:
                snapshot = self.overwrite.commit(committer, self.schema, entries, identifier, known)
            elif not entries and not self.schema.options.get_option(COMMIT_FORCE_SNAPSHOT):
                return None
            else:
                snapshot = committer.append(entries, identifier, known)
        except CommitStateUnknown:
            self._outcome_unknown = True
            raise
        except Exception:
            self._delete(entries)
            raise
        if snapshot is not None and not self._is_new(snapshot, identifier):
            self._delete(entries)  # an earlier run of this commit had published its own files before these were written
        self._published = snapshot is not None
        return snapshot

    def _is_new(self, snapshot: Snapshot, identifier: int) -> bool:
        mine = snapshot.commit_user == self.user and snapshot.commit_identifier == identifier
        return mine and snapshot.id > self.base_snapshot

    def abort(self, messages: Iterable[CommitMessage | None]) -> None:
        """Delete the files of a write that is given up. May be called more than once, and after a failed commit.

        Files stay when a snapshot of this write exists, or when a commit left its outcome unknown; also those of a
        snapshot that has expired already.
        """
        if self._outcome_unknown or self._published or self.is_published():
            return
        entries = [entry for message in messages if message is not None for entry in message.entries]
        with contextlib.suppress(PaimonError):
            live = self._live_since(entries)
            self._delete(entry for entry in entries if entry.file.name not in live)

    def _live_since(self, entries: Iterable[ManifestEntry]) -> set[str]:
        """The files in the partitions of ``entries`` at the oldest snapshot, if one since the write began has expired:
        that may have been this write's. What it had and the oldest has not, nobody has.

        :raises PaimonError: that cannot be found out
        """
        earliest = self.metadata.snapshots.earliest_id()
        if earliest is None or earliest <= self.base_snapshot + 1:
            return set()
        from paimon_spark.metadata.live_files import holding, live_files, within

        partitions = {entry.partition for entry in entries}
        snapshot = self.metadata.snapshots.get(earliest)
        live = live_files(self.metadata, snapshot, holding(partitions, self.schema), within(partitions))
        return {entry.file.name for entry in live}

    def is_published(self) -> bool:
        """Whether a snapshot since the write began is by this write (its commit user is its own)."""
        return self.metadata.snapshots.has_commit(self.user, self.base_snapshot)

    def _delete(self, entries: Iterable[ManifestEntry]) -> None:
        """Delete data files; one that cannot be deleted is left to the orphan clean-up, as its error would hide
        the one that matters."""
        for entry in entries:
            directory = bucket_directory(self.metadata.paths, self.schema, entry.partition, entry.bucket)
            with contextlib.suppress(PaimonError):
                self.metadata.storage.delete(f"{directory}/{entry.file.name}")
