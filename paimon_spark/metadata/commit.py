"""Commit: making changes the table's next snapshot, exactly once, whatever the other writers and the storage do.

One attempt reads the newest snapshot L, checks that the changes fit it, writes

    delta list   the manifests of the changes
    base list    the manifests of L (base and delta), some of them merged
    snapshot     both lists, and what is carried over from L

and publishes the snapshot under L's id + 1 with ``put_if_absent``. Four things can happen:

1. It is published. Done.
2. Somebody else's snapshot has the id, or had it and has expired (:mod:`~paimon_spark.metadata.overtaken`). The
   attempt's own files are deleted and the next attempt starts from the new L.
3. The storage fails without an answer. The snapshot file is read back: ours means 1, another 2. If it is missing, the
   same put is repeated, for a put that is still under way can only ever publish the same bytes under the same id.
4. The storage keeps failing. Then nobody knows, so nothing is deleted, and CommitStateUnknown says so; unless it said
   each time that nothing was written (the disk is full), and then everything is deleted.

A commit that was interrupted after 1 and is run again (a streaming batch after a restart) finds the snapshot with its
own user, identifier and kind, and returns it.

Losing a race means that another writer made progress, so races are not failures: unless ``commit.max-retries`` is set,
a commit tries MAX_RACES times. It waits a random time up to ``commit.min-retry-wait``, doubled with every race lost up
to 64 times that and up to ``commit.max-retry-wait``; short waits, because a writer that waits long starves.

Source: ``FileStoreCommitImpl`` and ``RenamingSnapshotCommit`` of Apache Paimon.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence

from paimon_spark.errors import CommitConflict, CommitStateUnknown, InvalidInput, NotFound, NothingWritten
from paimon_spark.metadata.commit_files import CommitFiles
from paimon_spark.metadata.commit_record import COMMITTED, is_recorded, record_after
from paimon_spark.metadata.commit_request import BATCH_IDENTIFIER, CommitRequest
from paimon_spark.metadata.conflict import (
    check_bucket_numbers,
    check_key_ranges,
    check_same_bucket_numbers,
    files_after,
)
from paimon_spark.metadata.index_manifest import IndexEntry, combine, deletion_vector_files
from paimon_spark.metadata.index_manifest_file import IndexManifestFile
from paimon_spark.metadata.live_files import holding, live_entries, live_files, within
from paimon_spark.metadata.manifest import DELETE, ManifestEntry
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.overtaken import is_overtaken
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.sequence_bound import MAX_SEQUENCE, max_sequence, recorded_maximum
from paimon_spark.metadata.snapshot import APPEND, OVERWRITE, Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import (
    COMMIT_MAX_RETRIES,
    COMMIT_MAX_WAIT,
    COMMIT_MIN_WAIT,
    COMMIT_TIMEOUT,
    MANIFEST_MERGE_MIN_COUNT,
)

__all__ = ["BATCH_IDENTIFIER", "MAX_RACES", "MAX_SEQUENCE", "CommitRequest", "Committer", "max_sequence"]

MAX_RACES = 1000
_PUBLISH_ATTEMPTS = 10


class Committer:
    """Commits the changes of one user to one table. ``schema`` gives the options of commits and manifests."""

    def __init__(self, metadata: TableMetadata, schema: TableSchema, user: str) -> None:
        self._metadata = metadata
        self._schema = schema
        self._user = user
        self._searched = 0

    def append(
        self,
        adds: Sequence[ManifestEntry],
        identifier: int = BATCH_IDENTIFIER,
        known_maximum: tuple[int, int] | None = None,
    ) -> Snapshot:
        """Add files. Raises as :meth:`commit`."""
        return self.commit(CommitRequest(APPEND, adds, identifier=identifier, known_maximum=known_maximum))

    def overwrite(
        self,
        adds: Sequence[ManifestEntry],
        replaces: Callable[[bytes], bool],
        identifier: int = BATCH_IDENTIFIER,
        known_maximum: tuple[int, int] | None = None,
    ) -> Snapshot:
        """Add files in place of all that the partitions hold for which ``replaces`` says so, index files included.

        Raises as :meth:`commit`.
        """

        def files(latest: Snapshot | None) -> list[ManifestEntry]:
            if latest is None:
                return []
            verdicts: dict[bytes, bool] = {}

            def keep(partition: bytes, bucket: int, _: int) -> bool:
                if partition not in verdicts:
                    verdicts[partition] = replaces(partition)
                return bucket >= 0 and verdicts[partition]

            return live_files(self._metadata, latest, keep_entry=keep)

        def indexes(latest: Snapshot | None) -> list[IndexEntry]:
            entries = self._metadata.indexes.of_snapshot(latest).entries
            return [entry.deleted() for entry in entries if replaces(entry.partition)]

        return self.commit(
            CommitRequest(OVERWRITE, adds, files, indexes, identifier=identifier, known_maximum=known_maximum)
        )

    def commit(self, request: CommitRequest) -> Snapshot:
        """Publish the changes as one snapshot; that snapshot, or the earlier one that already has them.

        :raises CommitConflict: the changes do not fit the table any more, or too many races were lost; nothing is
            visible and the manifests are deleted (data files are the caller's)
        :raises CommitStateUnknown: the storage never answered; the snapshot may exist, and nothing is deleted
        """
        if request.kind == APPEND and request.deletes:
            raise InvalidInput("an APPEND cannot delete files; commit it as OVERWRITE or COMPACT")
        latest = self._metadata.snapshots.latest()
        done = self._committed_before(request, latest)
        if done is not None:
            return done
        # Tasks import this module to write, but never commit: they do without expiry.
        from paimon_spark.metadata.expiration import expire_after_commit

        snapshot = self._race(request, latest)
        expire_after_commit(self._metadata, self._schema, snapshot)
        return snapshot

    # ------------------------------------------------------------------ attempts

    def _race(self, request: CommitRequest, latest: Snapshot | None) -> Snapshot:
        options = self._schema.options
        bound = options.get_option(COMMIT_MAX_RETRIES) if options.is_set(COMMIT_MAX_RETRIES) else MAX_RACES
        timeout = options.get_option(COMMIT_TIMEOUT)
        end = None if timeout is None else time.monotonic() + timeout / 1000
        files = CommitFiles(self._metadata, self._schema)
        for lost in range(bound + 1):
            try:
                if lost:
                    self._wait(lost - 1)
                    before, latest = latest, self._metadata.snapshots.latest()
                    if done := self._committed_since(request, before, latest):
                        files.discard()
                        return done
                snapshot = self._prepare(request, latest, files, retry=lost > 0)
            except BaseException:
                files.discard()
                raise
            try:
                published = self._publish(snapshot)
            except NothingWritten:
                files.discard()
                raise
            if published:
                self._metadata.snapshots.write_latest_hint(snapshot.id)
                return snapshot
            files.discard_attempt()
            if end is not None and time.monotonic() > end:
                break
        files.discard()
        raise CommitConflict(
            f"gave up after losing {lost + 1} races for the next snapshot of {self._metadata.root}; try again, or "
            f"raise {COMMIT_MAX_RETRIES.key!r} or {COMMIT_TIMEOUT.key!r}"
        )

    def _wait(self, lost: int) -> None:
        """A random pause, in milliseconds up to a bound that doubles with the races lost."""
        options = self._schema.options
        bound = options.get_option(COMMIT_MIN_WAIT) * 2 ** min(lost, 6)
        time.sleep(random.uniform(0, min(bound, options.get_option(COMMIT_MAX_WAIT))) / 1000)

    def _prepare(self, request: CommitRequest, latest: Snapshot | None, files: CommitFiles, retry: bool) -> Snapshot:
        """Check the changes against ``latest``, write their metadata files and describe the snapshot after it."""
        schema = self._metadata.schemas.latest()
        if schema is None:
            raise NotFound(f"{self._metadata.root} is not a table: it has no schema")
        manifests = [] if latest is None else self._metadata.manifests.of_snapshot(latest)
        changes = request.changes(latest)
        self._check(request, changes, manifests)
        index_manifest = self._index_manifest(request, latest, files)
        delta, delta_size = files.delta_list(changes)
        merge = not retry or len(manifests) >= 2 * self._schema.options.get_option(MANIFEST_MERGE_MIN_COUNT)
        base, base_size = files.base_list(manifests, merge)
        records = sum(e.file.row_count if e.kind != DELETE else -e.file.row_count for e in changes)
        return Snapshot(
            id=_id(latest) + 1,
            uuid=str(uuid.uuid4()),
            schema_id=schema.id,
            base_manifest_list=base,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta,
            delta_manifest_list_size=delta_size,
            index_manifest=None if index_manifest is None else index_manifest.name,
            commit_user=self._user,
            commit_identifier=request.identifier,
            commit_kind=request.kind,
            time_millis=max(int(time.time() * 1000), 0 if latest is None else latest.time_millis),
            total_record_count=self._records(latest) + records,
            delta_record_count=records,
            watermark=_greater(request.watermark, None if latest is None else latest.watermark),
            statistics=latest.statistics if latest is not None and latest.schema_id == schema.id else None,
            properties=_properties(request, latest, self._user, index_manifest) or None,
            next_row_id=None if latest is None else latest.next_row_id,
        )

    def _check(
        self, request: CommitRequest, changes: Sequence[ManifestEntry], manifests: Sequence[ManifestFile]
    ) -> None:
        """Whether the changes fit the files that these manifests leave live.

        :raises CommitConflict: they do not
        """
        if request.kind != OVERWRITE:
            check_same_bucket_numbers(request.adds)
        if request.kind == APPEND and all(entry.file.level == 0 for entry in request.adds):
            check_bucket_numbers(self._metadata.manifests, manifests, request.adds, self._schema)
            return
        partitions = {entry.partition for entry in changes}
        live = live_entries(
            self._metadata.manifests,
            manifests,
            holding(partitions, self._schema),
            within(partitions),
        )
        files = files_after(live, changes)
        if request.kind != OVERWRITE:
            check_same_bucket_numbers(files)
        check_key_ranges(files, changes, self._schema)

    def _index_manifest(
        self, request: CommitRequest, latest: Snapshot | None, files: CommitFiles
    ) -> IndexManifestFile | None:
        changes = request.changes_of_indexes(latest)
        if not changes and not request.vectors_from:
            return IndexManifestFile.of(latest)
        previous = self._metadata.indexes.of_snapshot(latest)
        current = deletion_vector_files(previous.entries)
        for bucket, name in request.vectors_from.items():
            if current.get(bucket) != name:
                raise CommitConflict(
                    f"the deletion vectors of bucket {bucket[1]} have changed since this commit read them: another "
                    "compaction was faster; try again"
                )
        if not changes:
            return IndexManifestFile.of(latest)
        return files.index_manifest(combine(previous, changes))

    def _records(self, latest: Snapshot | None) -> int:
        """Rows in the table; counted where the snapshot does not say, as early versions of Paimon did not."""
        if latest is None:
            return 0
        if latest.total_record_count is None:
            return sum(entry.file.row_count for entry in live_files(self._metadata, latest))
        return latest.total_record_count

    # ------------------------------------------------------------------ the outcome

    def _publish(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot became the table's next one; False when another one did.

        :raises CommitStateUnknown: the storage never said
        :raises NothingWritten: the storage said each time that it could not
        """
        path = self._metadata.paths.snapshot_file(snapshot.id)
        problem: Exception | None = None
        refused = 0
        for attempt in range(_PUBLISH_ATTEMPTS):
            if attempt:
                self._wait(attempt)
            try:
                if self._metadata.snapshots.publish(snapshot):
                    return self._is_history(snapshot, problem)
            except CommitStateUnknown:
                raise
            except NothingWritten as failure:
                problem, refused = failure, refused + 1
            except Exception as failure:
                problem = failure
            try:
                published = self._metadata.storage.read(path) == snapshot.serialize()
                return published and self._is_history(snapshot, problem)
            except CommitStateUnknown:
                raise
            except Exception as failure:
                problem = problem or failure
        if refused == _PUBLISH_ATTEMPTS and problem is not None:
            raise problem
        raise CommitStateUnknown(
            f"the storage did not say whether {path} was published ({problem}); its files are kept. Look for a "
            f"snapshot of user {snapshot.commit_user} before you write the same data again"
        ) from problem

    def _is_history(self, snapshot: Snapshot, problem: Exception | None) -> bool:
        """Whether the published snapshot continues the history; one that does not is deleted.

        :raises CommitStateUnknown: after a ``problem`` it may be the second of two, of which the first has expired
        """
        if not is_overtaken(self._metadata, snapshot):
            return True
        self._metadata.storage.delete(self._metadata.paths.snapshot_file(snapshot.id))
        if problem is None:
            return False
        raise CommitStateUnknown(
            f"{self._metadata.root}: others let snapshot {snapshot.id} expire while the storage did not say whether it "
            "was published by this commit; its files are kept. Look whether the table has the data before you write "
            "it again, and keep snapshots for longer ('snapshot.time-retained')"
        ) from problem

    def _committed_since(
        self, request: CommitRequest, before: Snapshot | None, latest: Snapshot | None
    ) -> Snapshot | None:
        """The snapshot that already has this commit, among those after ``before`` up to ``latest``."""
        for id_ in range(_id(before) + 1, _id(latest) + 1):
            try:
                snapshot = self._metadata.snapshots.get(id_)
            except NotFound:
                continue
            if self._is_mine(snapshot, request) and snapshot.commit_identifier == request.identifier:
                return snapshot
        return None

    def _is_mine(self, snapshot: Snapshot, request: CommitRequest) -> bool:
        return snapshot.commit_user == self._user and snapshot.commit_kind == request.kind

    def _committed_before(self, request: CommitRequest, latest: Snapshot | None) -> Snapshot | None:
        """The snapshot that already has this commit, or a later one of its user, looked for from the newest back;
        the newest, when it records a commit whose snapshot has expired.

        A user's identifiers increase, so the search ends at a lower one, and the next search ends where this began.
        """
        if latest is None or request.identifier == BATCH_IDENTIFIER:
            return None
        later: Snapshot | None = None
        snapshot = latest
        while snapshot.id > self._searched:
            mine = snapshot.commit_user == self._user and snapshot.commit_identifier != BATCH_IDENTIFIER
            if mine and snapshot.commit_identifier < request.identifier:
                break
            if mine and snapshot.commit_identifier > request.identifier:
                later = later or snapshot
            elif mine and snapshot.commit_kind == request.kind:
                return snapshot
            try:
                snapshot = self._metadata.snapshots.get(snapshot.id - 1)
            except NotFound:
                break
        if later is None and is_recorded(latest, self._user, request.kind, request.identifier):
            later = latest
        if later is None:
            self._searched = latest.id
        return later


def _id(snapshot: Snapshot | None) -> int:
    """The snapshot's id, 0 before the first one."""
    return 0 if snapshot is None else snapshot.id


def _greater(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _properties(
    request: CommitRequest, latest: Snapshot | None, user: str, index_manifest: IndexManifestFile | None
) -> dict[str, str]:
    """The snapshot's properties; with the size of its index manifest, where it is known, with the table's greatest
    sequence number, as long as it is known without a scan, and with the record of commits."""
    properties = {**request.properties, **(index_manifest.properties() if index_manifest else {})}
    known = -1 if latest is None else recorded_maximum(latest)
    if known is None and latest is not None and request.known_maximum and request.known_maximum[0] == latest.id:
        known = request.known_maximum[1]
    if known is not None:
        properties[MAX_SEQUENCE] = str(max([known, *(entry.file.max_sequence for entry in request.adds)]))
    committed = record_after(latest, user, request.kind, request.identifier)
    if committed is not None:
        properties[COMMITTED] = committed
    return properties
