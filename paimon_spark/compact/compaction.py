"""Compaction of a table: which buckets need it, and one COMPACT snapshot for all that changed.

Writers only add files to level 0, which disturbs no compaction: what they add while it runs is compacted the next
time. Two compactions of one bucket do disturb each other, and so does an overwrite. The commit of the slower one
notices: a file that it replaces is gone, or the deletion vectors it built upon are others now. Then it looks at the
newest snapshot, deletes what it made of the buckets that have changed and compacts those again; what it made of the
others is kept. Whoever loses a bucket that way finds it compacted by somebody else, so that even ATTEMPTS, which
bounds this, is hardly ever reached.

One snapshot a call, not one a bucket: the buckets of a table are compacted or not, and a reader never sees a state in
between. Work that takes longer than one may wait for goes partition by partition, by a call for each.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from paimon_spark.compact.bucket_compaction import CompactionResult, compact_bucket, is_due
from paimon_spark.compact.bucket_state import Bucket, BucketState, bucket_states
from paimon_spark.errors import CommitConflict, CommitStateUnknown, NotFound, UnsupportedFeature
from paimon_spark.metadata.commit import Committer
from paimon_spark.metadata.commit_request import CommitRequest
from paimon_spark.metadata.partition_specification import check_partition, covers
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import COMPACT, Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import CHANGELOG_PRODUCER, COMMIT_USER_PREFIX, DELETION_VECTORS

ATTEMPTS = 10

Results = dict[Bucket, CompactionResult | None]

Compactor = Callable[[Sequence[BucketState]], Iterable[CompactionResult | None]]
"""Who compacts buckets: what became of each, in their order. When it raises, nothing is left of those that it has not
yet returned."""


def refuse_changelog(schema: TableSchema) -> None:
    """Refuse to compact a table whose compactions have to write changelog files.

    :raises UnsupportedFeature: names the option
    """
    producer = schema.options.get_option(CHANGELOG_PRODUCER)
    if producer in ("lookup", "full-compaction"):
        raise UnsupportedFeature(
            f"a table of {CHANGELOG_PRODUCER.key!r} = {producer!r} is not compacted by this package, since that has to "
            "write changelog files; compact it with Flink or Java's Spark connector"
        )


def compact_table(
    metadata: TableMetadata,
    schema: TableSchema,
    *,
    full: bool = False,
    partitions: Sequence[Mapping[str, Any]] | None = None,
    buckets: Collection[Bucket] | None = None,
    patient: bool = False,
    compactor: Compactor | None = None,
    user: str | None = None,
) -> Snapshot | None:
    """Compact buckets of a table; the new snapshot, or None when nothing had to be done.

    ``partitions`` are specifications such as {"day": "2024-01-31"}, and a partition that one of them covers is
    compacted; ``buckets`` chooses single buckets. None means all. ``full`` and ``patient`` as for
    :func:`~paimon_spark.compact.bucket_compaction.compact_bucket`. ``user`` is who commits (None: :func:`new_user`).
    The table may be ``write-only``.

    When this raises anything but :class:`CommitStateUnknown`, nothing is visible and the new files are deleted.

    :raises InvalidInput: a specification that does not fit, or records that the merge engine refuses
    :raises UnsupportedFeature: compactions of the table have to write a changelog
    :raises CommitConflict: other compactions were faster ATTEMPTS times
    :raises CommitStateUnknown: the storage never said whether the snapshot was published; the files are kept
    """
    refuse_changelog(schema)
    for specification in partitions or ():
        check_partition(schema, specification)
    chosen: dict[bytes, bool] = {}

    def wanted(partition: bytes, bucket: int) -> bool:
        if partition not in chosen:
            chosen[partition] = partitions is None or any(covers(schema, s, partition) for s in partitions)
        return chosen[partition] and (buckets is None or (partition, bucket) in buckets)

    if compactor is None:
        compactor = partial(_compact_here, metadata, schema, full=full, patient=patient)
    results: Results = {}
    for attempt in range(1, ATTEMPTS + 1):
        snapshot = metadata.snapshots.latest()
        if snapshot is None:
            return None
        try:
            states = bucket_states(metadata, snapshot, wanted)
            _discard_stale(metadata, schema, results, states)
            unknown = {key: state for key, state in states.items() if key not in results}
            due = {key: state for key, state in unknown.items() if is_due(schema, state, full=full, patient=patient)}
            results.update(dict.fromkeys(unknown.keys() - due.keys()))
            for key, result in zip(due, compactor(list(due.values())) if due else (), strict=True):
                results[key] = result
            return commit_compaction(metadata, schema, [r for r in results.values() if r is not None], user)
        except CommitStateUnknown:
            raise
        except BaseException as problem:
            if attempt == ATTEMPTS or not _may_try_again(metadata, snapshot, problem):
                _discard(metadata, schema, results.values())
                raise
    raise AssertionError("the last attempt returns or raises")


def _compact_here(
    metadata: TableMetadata, schema: TableSchema, states: Sequence[BucketState], *, full: bool, patient: bool
) -> Iterator[CompactionResult | None]:
    for state in states:
        yield compact_bucket(metadata, schema, state, full=full, patient=patient)


def commit_compaction(
    metadata: TableMetadata, schema: TableSchema, results: Sequence[CompactionResult], user: str | None = None
) -> Snapshot | None:
    """Publish what compactions of some buckets, each of another one, made, as ``user``; None when there are none.

    :raises CommitConflict: a bucket has changed meanwhile; nothing is visible, and the files are the caller's
    :raises CommitStateUnknown: the storage never said whether the snapshot was published; the files must be kept
    """
    if not results:
        return None
    vectors_from = {(r.state.partition, r.state.bucket): r.state.vectors_file for r in results}
    return Committer(metadata, schema, user or new_user(schema)).commit(
        CommitRequest(
            COMPACT,
            adds=[entry for result in results for entry in result.after],
            deletes=[entry for result in results for entry in result.before],
            index_changes=[result.vectors for result in results if result.vectors is not None],
            vectors_from=vectors_from if schema.options.get_option(DELETION_VECTORS) else {},
        )
    )


def new_user(schema: TableSchema) -> str:
    """A commit user that is nobody else."""
    prefix = schema.options.get_option(COMMIT_USER_PREFIX)
    return f"{prefix}_{uuid.uuid4()}" if prefix else str(uuid.uuid4())


def _discard_stale(
    metadata: TableMetadata, schema: TableSchema, results: Results, states: Mapping[Bucket, BucketState]
) -> None:
    """Forget the results for buckets that have changed, and delete their files."""
    stale = {key: r for key, r in results.items() if r is not None and not r.fits(states.get(key))}
    _discard(metadata, schema, stale.values())
    for key in stale:
        del results[key]


def _discard(metadata: TableMetadata, schema: TableSchema, results: Iterable[CompactionResult | None]) -> None:
    for result in results:
        if result is not None:
            result.discard(metadata, schema)


def _may_try_again(metadata: TableMetadata, snapshot: Snapshot, problem: BaseException) -> bool:
    """Whether somebody else's commit is to blame: a conflict, or a file that is gone since ``snapshot``."""
    if isinstance(problem, NotFound):
        return metadata.snapshots.latest_id() != snapshot.id
    return isinstance(problem, CommitConflict)
