"""Expiration: snapshots that are old enough go, and the files go that nothing else refers to.

One snapshot after the other, the oldest first:

1. what it has and the next one has not is read (:mod:`~paimon_spark.metadata.expired_files`), as are the tags and
   branches that may keep some of it
2. the snapshot file is deleted
3. the tags and branches are read once more, for one may have been made of the snapshot a moment ago
4. the files that nobody keeps are deleted

and last of all the EARLIEST hint is written. So a snapshot that is there is whole, and a reader that misses a file can
tell that its snapshot has expired. When a step fails, or its process dies, what the snapshot leaves is an orphan at
worst, and the next expiry goes on with the next snapshot. (Java deletes the snapshot file last: it may leave snapshots
of which some files are gone. They expire here like all others.)

Where ids have a gap, which expiry never leaves, the next snapshot does not say what the one before it had: then only
the snapshot file goes, and its files are orphans.

Each commit is followed by an expiry, unless the table is ``write-only``. While nothing is due that costs two small
reads, whatever the number of snapshots. What ``snapshot.expire.execution-mode`` = async asks for is done
synchronously. Directories that become empty stay, also with ``snapshot.clean-empty-directories``, since a writer may be
about to put a file into one.

Source: ``ExpireSnapshotsImpl`` of Apache Paimon.
"""

from __future__ import annotations

import contextlib
import logging
import time

from paimon_spark.errors import NotFound, PaimonError
from paimon_spark.metadata.expired_files import ExpiredFiles
from paimon_spark.metadata.retention import Retention, needed_by_consumers, refuse_long_lived_changelogs
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import WRITE_ONLY

log = logging.getLogger("paimon_spark")


def expire_snapshots(metadata: TableMetadata, schema: TableSchema, retention: Retention, now: int) -> int:
    """Expire what ``retention`` does not keep at ``now`` (epoch milliseconds); the number of snapshots that went.

    :raises UnsupportedFeature: the table's changelogs are to outlive its snapshots
    :raises PaimonError: something cannot be read or deleted; what expired until then stays expired
    """
    refuse_long_lived_changelogs(schema.options)
    ids = metadata.snapshots.ids()
    if not ids:
        return 0
    metadata.snapshots.write_earliest_hint(ids[0])
    return _expire(metadata, schema, retention, now, ids[0], ids[-1])


def expire_after_commit(metadata: TableMetadata, schema: TableSchema, committed: Snapshot) -> None:
    """What follows a commit, by the table's options. The commit stays, whatever happens here: a failure is a warning
    in the log, and the next expiry finds as much to do as this one did."""
    try:
        if schema.options.get_option(WRITE_ONLY):
            return
        retention = Retention.of(schema.options)
        if committed.id <= retention.minimum:
            return
        refuse_long_lived_changelogs(schema.options)
        earliest = metadata.snapshots.earliest_id(remember=True)
        if earliest is not None:
            _expire(metadata, schema, retention, time.time_ns() // 1_000_000, earliest, committed.id)
    except Exception as problem:
        log.warning(
            "%s: snapshot %d is committed, but the expiry of older ones after it failed: %s: %s",
            metadata.root,
            committed.id,
            type(problem).__name__,
            problem,
        )


def _expire(
    metadata: TableMetadata, schema: TableSchema, retention: Retention, now: int, earliest: int, latest: int
) -> int:
    def committed_at(snapshot_id: int) -> int | None:
        snapshot = _snapshot(metadata, snapshot_id)
        return None if snapshot is None else snapshot.time_millis

    end = retention.first_kept(earliest, latest, now, committed_at)
    if end <= earliest:
        return 0
    end = min(end, needed_by_consumers(metadata, schema.options, now) or end)
    files = ExpiredFiles(metadata, schema)
    expired, kept = 0, earliest
    try:
        for id_ in range(earliest, end):
            expired += _expire_one(metadata, files, id_)
            kept = id_ + 1
    finally:
        if kept > earliest:
            metadata.snapshots.write_earliest_hint(kept)
    return expired


def _expire_one(metadata: TableMetadata, files: ExpiredFiles, snapshot_id: int) -> bool:
    """Expire the oldest snapshot; False when it is gone already."""
    going = _snapshot(metadata, snapshot_id)
    if going is None:
        return False
    successor = _snapshot(metadata, snapshot_id + 1)
    leaving = None if successor is None else files.leaving(going, successor)
    before = files.keepers(snapshot_id)
    unused = [] if leaving is None else list(files.unused(leaving, before))
    metadata.storage.delete(metadata.paths.snapshot_file(snapshot_id))
    if leaving is None:
        return True
    keepers = files.keepers(snapshot_id)
    if keepers != before:
        unused = list(files.unused(leaving, keepers))
    for path in unused:
        with contextlib.suppress(PaimonError):  # it is an orphan now
            metadata.storage.delete(path)
    return True


def _snapshot(metadata: TableMetadata, snapshot_id: int) -> Snapshot | None:
    with contextlib.suppress(NotFound):
        return metadata.snapshots.get(snapshot_id)
    return None
