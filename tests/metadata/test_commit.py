"""Commits: exactly once, whoever races and however the storage fails; and conflicts."""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import CommitConflict, CommitStateUnknown, CorruptFile, InvalidInput, NotFound, StorageError
from paimon_spark.metadata.commit import BATCH_IDENTIFIER, MAX_SEQUENCE, Committer, max_sequence
from paimon_spark.metadata.commit_request import CommitRequest
from paimon_spark.metadata.deletion_vector import DeletionVector
from paimon_spark.metadata.index_manifest import DELETION_VECTORS, HASH, IndexEntry
from paimon_spark.metadata.index_manifest_file import INDEX_MANIFEST
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.manifest import ADD, DELETE, ManifestEntry
from paimon_spark.metadata.snapshot import APPEND, COMPACT, OVERWRITE, Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.rows.binary_row import EMPTY_ROW, serialize
from paimon_spark.storage.local import LocalStorage
from paimon_spark.storage.storage import Storage
from paimon_spark.types import DataType
from tests.metadata.made_up import added, data_file, names_in, new_table, row
from tests.processes import fork_server


def manifest_files(metadata: TableMetadata) -> set[str]:
    return names_in(metadata.paths.manifest_directory)


def files(metadata: TableMetadata, snapshot: Snapshot) -> set[tuple[str, int]]:
    return {(e.file.name, e.file.level) for e in live_files(metadata, snapshot)}


def identity(*entries: ManifestEntry) -> set[tuple[str, int]]:
    return {(e.file.name, e.file.level) for e in entries}


# --------------------------------------------------------------------------- one writer


def test_the_first_two_snapshots(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    committer = Committer(metadata, schema, "me")
    a, b = added(data_file(0, 9)), added(data_file(10, 14), bucket=1)
    one, two = committer.append([a]), committer.append([b], identifier=7)
    assert (one.id, one.commit_kind, one.commit_user, one.commit_identifier) == (1, APPEND, "me", BATCH_IDENTIFIER)
    assert (two.id, two.commit_identifier, two.schema_id) == (2, 7, 0)
    assert (one.total_record_count, one.delta_record_count) == (10, 10)
    assert (two.total_record_count, two.delta_record_count) == (15, 5)
    assert two.time_millis >= one.time_millis
    assert metadata.snapshots.latest() == two
    assert (tmp_path / "snapshot/LATEST").read_text() == "2"
    assert files(metadata, one) == identity(a)
    assert files(metadata, two) == identity(a, b)
    for snapshot in (one, two):
        sizes = {snapshot.base_manifest_list: snapshot.base_manifest_list_size}
        sizes[snapshot.delta_manifest_list] = snapshot.delta_manifest_list_size
        for name, size in sizes.items():
            assert (tmp_path / "manifest" / name).stat().st_size == size


def test_an_empty_append_makes_a_snapshot(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    snapshot = Committer(metadata, schema, "me").append([])
    assert (snapshot.total_record_count, live_files(metadata, snapshot)) == (0, [])


def test_what_is_carried_forward(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    committer = Committer(metadata, schema, "me")
    first = committer.append([added()])
    future = first.time_millis + 10**9
    java = replace(
        first, id=2, time_millis=future, watermark=50, statistics="stat-1", next_row_id=3, total_record_count=None
    )
    java = replace(java, properties=None)
    assert metadata.snapshots.publish(java)
    request = CommitRequest(APPEND, [added()], watermark=40, properties={"a": "b"})
    third = committer.commit(request)
    assert (third.time_millis, third.watermark, third.statistics, third.next_row_id) == (future, 50, "stat-1", 3)
    assert third.properties == {"a": "b"}
    assert third.total_record_count == 10 + 10 + 10 - 10
    assert metadata.schemas.create(replace(schema, id=1))
    fourth = committer.commit(CommitRequest(APPEND, watermark=60))
    assert (fourth.schema_id, fourth.watermark, fourth.statistics) == (1, 60, None)


def test_no_table(tmp_path: Path) -> None:
    _, schema = new_table(tmp_path)
    with pytest.raises(NotFound, match="no schema"):
        Committer(TableMetadata(LocalStorage(), str(tmp_path / "other")), schema, "me").append([added()])


def test_metadata_travels(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    Committer(metadata, schema, "me").append([added()])
    copy = pickle.loads(pickle.dumps(metadata))
    assert copy == metadata
    assert copy.snapshots.latest() == metadata.snapshots.latest()


# --------------------------------------------------------------------------- exactly once by identifier


def test_a_repeated_identifier_is_committed_once(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    first = Committer(metadata, schema, "stream").append([added()], identifier=1)
    Committer(metadata, schema, "other").append([added()], identifier=1)
    before = manifest_files(metadata)
    assert Committer(metadata, schema, "stream").append([added()], identifier=1) == first
    assert manifest_files(metadata) == before
    compact = Committer(metadata, schema, "stream").commit(CommitRequest(COMPACT, identifier=1))
    assert (compact.id, compact.commit_kind) == (3, COMPACT)
    second = Committer(metadata, schema, "stream").append([added()], identifier=2)
    assert second.id == 4
    assert Committer(metadata, schema, "stream").append([added()], identifier=1) == first
    assert Committer(metadata, schema, "stream").append([added()], identifier=0) == second


def test_batches_are_not_compared(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    committer = Committer(metadata, schema, "me")
    assert [committer.append([added()]).id for _ in range(3)] == [1, 2, 3]


def test_a_search_does_not_repeat_itself(tmp_path: Path) -> None:
    """Ten commits of a new user read each old snapshot at most once; expiry asks the second one how old it is."""
    metadata, schema = new_table(tmp_path)
    other = Committer(metadata, schema, "other")
    for _ in range(20):
        other.append([])
    storage = Counting()
    counted = TableMetadata(storage, metadata.root)
    stream = Committer(counted, schema, "stream")
    for identifier in range(1, 11):
        stream.append([], identifier=identifier)
    assert max(storage.reads[counted.paths.snapshot_file(i)] for i in range(3, 20)) == 1


class Counting(LocalStorage):
    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()

    def read(self, path: str, limit: int | None = None) -> bytes:
        self.reads[path] += 1
        return super().read(path, limit)


# --------------------------------------------------------------------------- races


def append_often(root: str, number: int, commits: int, queue: multiprocessing.Queue[tuple[int, str]]) -> None:
    metadata = TableMetadata(LocalStorage(), root)
    schema = metadata.schemas.latest()
    assert schema is not None
    committer = Committer(metadata, schema, f"user-{number}")
    for i in range(commits):
        snapshot = committer.append([added(data_file(i, i + number))], identifier=i + 1)
        content = Path(metadata.paths.snapshot_file(snapshot.id)).read_bytes()
        queue.put((snapshot.id, hashlib.sha256(content).hexdigest()))


def test_eight_processes_commit_hundreds_of_times(tmp_path: Path) -> None:
    processes, commits = 8, 50
    metadata, _ = new_table(tmp_path)
    context = fork_server()
    queue = context.Queue()
    workers = [context.Process(target=append_often, args=(str(tmp_path), n, commits, queue)) for n in range(processes)]
    for worker in workers:
        worker.start()
    seen = dict(queue.get(timeout=300) for _ in range(processes * commits))
    for worker in workers:
        worker.join()
    assert sorted(seen) == list(range(1, processes * commits + 1)) == metadata.snapshots.ids()
    for id_, digest in seen.items():
        assert hashlib.sha256(Path(metadata.paths.snapshot_file(id_)).read_bytes()).hexdigest() == digest
    snapshots = [metadata.snapshots.get(id_) for id_ in sorted(seen)]
    assert Counter(s.commit_user for s in snapshots) == {f"user-{n}": commits for n in range(processes)}
    for user in {s.commit_user for s in snapshots}:
        assert [s.commit_identifier for s in snapshots if s.commit_user == user] == list(range(1, commits + 1))
    live = live_files(metadata, snapshots[-1])
    assert len(live) == processes * commits
    assert snapshots[-1].total_record_count == sum(e.file.row_count for e in live)
    assert [s.time_millis for s in snapshots] == sorted(s.time_millis for s in snapshots)
    assert referenced(metadata, snapshots) == manifest_files(metadata)
    assert len(metadata.manifests.of_snapshot(snapshots[-1])) <= 61


def referenced(metadata: TableMetadata, snapshots: list[Snapshot]) -> set[str]:
    """The files in the manifest directory that the snapshots name: nothing of lost races is left over."""
    names = set()
    for s in snapshots:
        names |= {s.base_manifest_list, s.delta_manifest_list} | {m.name for m in metadata.manifests.of_snapshot(s)}
        names |= {s.index_manifest} if s.index_manifest else set()
    return names


class Racing(LocalStorage):
    """Lets somebody else publish first, some times."""

    def __init__(self, somebody: Callable[[], object], times: int) -> None:
        self.somebody = somebody
        self.times = times

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.times > 0:
            self.times -= 1
            self.somebody()
        return super().put_if_absent(path, data)


def test_a_lost_race_is_run_again(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    other = Committer(metadata, schema, "other")
    storage = Racing(lambda: other.append([added()]), 5)
    mine = added()
    snapshot = Committer(TableMetadata(storage, metadata.root), schema, "me").append([mine])
    assert snapshot.id == 6
    assert identity(mine) < files(metadata, snapshot)
    assert referenced(metadata, [metadata.snapshots.get(i) for i in range(1, 7)]) == manifest_files(metadata)


def test_too_many_lost_races_are_a_conflict_that_leaves_nothing(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path, {"commit.max-retries": "2", "commit.min-retry-wait": "1 ms"})
    other = Committer(metadata, schema, "other")
    storage = Racing(lambda: other.append([added()]), 99)
    with pytest.raises(CommitConflict, match=r"losing 3 races.*commit\.max-retries"):
        Committer(TableMetadata(storage, metadata.root), schema, "me").append([added()])
    assert referenced(metadata, [metadata.snapshots.get(i) for i in (1, 2, 3)]) == manifest_files(metadata)


def test_commit_timeout(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path, {"commit.timeout": "0 ms"})
    other = Committer(metadata, schema, "other")
    storage = Racing(lambda: other.append([added()]), 99)
    with pytest.raises(CommitConflict, match="losing 1 races"):
        Committer(TableMetadata(storage, metadata.root), schema, "me").append([added()])


def test_a_race_lost_to_the_same_commit_is_won(tmp_path: Path) -> None:
    """A second driver, taken for dead, commits the same batch in between."""
    metadata, schema = new_table(tmp_path)
    twin = Committer(metadata, schema, "me")
    storage = Racing(lambda: twin.append([added()], identifier=3), 1)
    snapshot = Committer(TableMetadata(storage, metadata.root), schema, "me").append([added()], identifier=3)
    assert snapshot.id == 1
    assert metadata.snapshots.ids() == [1]
    assert referenced(metadata, [snapshot]) == manifest_files(metadata)


# --------------------------------------------------------------------------- a storage that does not answer


class Ambiguous(LocalStorage):
    """Fails to answer some puts, before or after it has applied them, and reads of snapshots meanwhile."""

    def __init__(self, failures: int, applied: bool, unreadable: int = 0) -> None:
        self.failures = failures
        self.applied = applied
        self.unreadable = unreadable

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if "snapshot-" not in path or self.failures == 0:
            return super().put_if_absent(path, data)
        self.failures -= 1
        if self.applied:
            super().put_if_absent(path, data)
        raise StorageError(f"{path}: connection reset")

    def read(self, path: str, limit: int | None = None) -> bytes:
        if "snapshot-" in path and self.unreadable and self.failures == 0:
            self.unreadable -= 1
            raise StorageError(f"{path}: timeout")
        return super().read(path, limit)


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("unreadable", [0, 3])
@pytest.mark.parametrize("failures", [1, 4])
def test_an_ambiguous_put_is_settled(tmp_path: Path, applied: bool, unreadable: int, failures: int) -> None:
    metadata, schema = new_table(tmp_path, {"commit.min-retry-wait": "1 ms"})
    doubtful = TableMetadata(Ambiguous(failures, applied, unreadable), metadata.root)
    mine = added()
    snapshot = Committer(doubtful, schema, "me").append([mine])
    assert metadata.snapshots.ids() == [1]
    assert metadata.snapshots.get(1) == snapshot
    assert files(metadata, snapshot) == identity(mine)


class Overtaken(LocalStorage):
    """Does not answer a put that somebody else has won."""

    def __init__(self, somebody: Callable[[], object]) -> None:
        self.somebody: Callable[[], object] | None = somebody

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.somebody is not None:
            somebody, self.somebody = self.somebody, None
            somebody()
            raise StorageError(f"{path}: connection reset")
        return super().put_if_absent(path, data)


def test_an_ambiguous_put_that_was_lost(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    other = Committer(metadata, schema, "other")
    storage = Overtaken(lambda: other.append([added()]))
    snapshot = Committer(TableMetadata(storage, metadata.root), schema, "me").append([added()])
    assert [metadata.snapshots.get(i).commit_user for i in (1, 2)] == ["other", "me"]
    assert snapshot.id == 2
    assert referenced(metadata, [metadata.snapshots.get(i) for i in (1, 2)]) == manifest_files(metadata)


@pytest.mark.parametrize("applied", [True, False])
def test_a_storage_that_never_answers(tmp_path: Path, applied: bool) -> None:
    metadata, schema = new_table(tmp_path, {"commit.min-retry-wait": "1 ms"})
    storage = Silent(applied)
    mine = added()
    with pytest.raises(CommitStateUnknown, match="of user me"):
        Committer(TableMetadata(storage, metadata.root), schema, "me").append([mine])
    if applied:
        snapshot = metadata.snapshots.get(1)
        assert files(metadata, snapshot) == identity(mine)
    assert len(manifest_files(metadata)) == 3


class Silent(LocalStorage):
    """Neither answers puts of snapshots nor reads of them."""

    def __init__(self, applied: bool) -> None:
        self.applied = applied

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.applied:
            super().put_if_absent(path, data)
        raise StorageError(f"{path}: connection reset")

    def read(self, path: str, limit: int | None = None) -> bytes:
        if "snapshot-" in path:
            raise StorageError(f"{path}: timeout")
        return super().read(path, limit)


class Full(LocalStorage):
    """Fails the n-th write."""

    def __init__(self, good: int) -> None:
        self.good = good

    def write(self, path: str, data: bytes) -> None:
        if self.good == 0:
            raise StorageError(f"{path}: no space left")
        self.good -= 1
        super().write(path, data)


@pytest.mark.parametrize("good", [0, 1, 2, 3])
def test_a_failing_write_leaves_nothing(tmp_path: Path, good: int) -> None:
    metadata, schema = new_table(tmp_path, {"manifest.merge-min-count": "1"})
    Committer(metadata, schema, "me").append([added()])
    Committer(metadata, schema, "me").append([added()])
    before = manifest_files(metadata)
    full: Storage = Full(good)
    with pytest.raises(StorageError, match="no space"):
        Committer(TableMetadata(full, metadata.root), schema, "me").append([added()])
    assert manifest_files(metadata) == before
    assert metadata.snapshots.ids() == [1, 2]


class NoHints(LocalStorage):
    def replace(self, path: str, data: bytes) -> None:
        raise StorageError(f"{path}: read-only")


def test_hints_are_not_needed(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    stubborn = TableMetadata(NoHints(), metadata.root)
    assert [Committer(stubborn, schema, "me").append([added()]).id for _ in range(3)] == [1, 2, 3]
    assert not (tmp_path / "snapshot/LATEST").exists()


# --------------------------------------------------------------------------- overwrite and compaction


def test_overwrite_replaces_what_is_there_when_it_is_published(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path, partitioned=True)
    one, two = row(1), row(2)
    other = Committer(metadata, schema, "other")
    other.append([added(partition=one), added(partition=two)])
    late = added(partition=one)
    storage = Racing(lambda: other.append([late]), 1)
    new = added(data_file(level=5), partition=one, total_buckets=4)
    snapshot = Committer(TableMetadata(storage, metadata.root), schema, "me").overwrite([new], one.__eq__)
    assert snapshot.commit_kind == OVERWRITE
    live = live_files(metadata, snapshot)
    assert {e.partition for e in live} == {one, two}
    assert [e for e in live if e.partition == one] == [new]
    delta = [e for m in metadata.manifests.of_delta(snapshot) for e in metadata.manifests.read(m)]
    assert [e.kind for e in delta] == [DELETE, DELETE, ADD]
    assert snapshot.total_record_count == 20
    empty = Committer(metadata, schema, "me").overwrite([], lambda _: True)
    assert (live_files(metadata, empty), empty.total_record_count) == ([], 0)


def test_overwrite_removes_index_files(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path, partitioned=True)
    entries = [IndexEntry(ADD, row(p), 0, HASH, f"index-{p}", 4, 1) for p in (1, 2)]
    committer = Committer(metadata, schema, "me")
    committer.commit(CommitRequest(APPEND, [added(partition=row(1))], index_changes=entries))
    snapshot = committer.overwrite([], row(1).__eq__)
    assert [e.name for e in metadata.indexes.of_snapshot(snapshot).entries] == ["index-2"]
    assert committer.overwrite([], row(2).__eq__).index_manifest is None


def test_compaction_replaces_files_and_moves_levels(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    committer = Committer(metadata, schema, "me")
    a, b, c = added(data_file(0, 4)), added(data_file(2, 8)), added(data_file(20, 30))
    committer.append([a, b, c])
    merged, moved = added(data_file(0, 8, level=5)), replace(c, file=c.file.at_level(5))
    snapshot = committer.commit(CommitRequest(COMPACT, [merged, moved], [a, b, c], identifier=4))
    assert files(metadata, snapshot) == identity(merged, moved)
    assert snapshot.delta_record_count == 9 - 5 - 7
    with pytest.raises(InvalidInput, match="APPEND cannot delete"):
        committer.commit(CommitRequest(APPEND, [], [merged]))


def conflicting(metadata: TableMetadata, request: CommitRequest, message: str) -> None:
    """The request conflicts, and leaves nothing behind."""
    schema = metadata.schemas.latest()
    assert schema is not None
    before, latest = manifest_files(metadata), metadata.snapshots.latest()
    with pytest.raises(CommitConflict, match=message):
        Committer(metadata, schema, "me").commit(request)
    assert manifest_files(metadata) == before
    assert metadata.snapshots.latest() == latest


def test_two_compactions_of_one_bucket_conflict(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    a, b = added(data_file(0, 4)), added(data_file(2, 8))
    Committer(metadata, schema, "me").append([a, b])
    first = CommitRequest(COMPACT, [added(data_file(0, 8, level=5))], [a, b])
    second = CommitRequest(COMPACT, [added(data_file(0, 4, level=5))], [a])
    storage = Racing(lambda: Committer(metadata, schema, "other").commit(first), 1)
    with pytest.raises(CommitConflict, match=a.file.name):
        Committer(TableMetadata(storage, metadata.root), schema, "me").commit(second)
    assert metadata.snapshots.ids() == [1, 2]
    assert referenced(metadata, [metadata.snapshots.get(i) for i in (1, 2)]) == manifest_files(metadata)


def test_files_conflict(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    a, top = added(data_file(0, 4)), added(data_file(0, 9, level=5))
    Committer(metadata, schema, "me").commit(CommitRequest(COMPACT, [a, top]))
    conflicting(metadata, CommitRequest(COMPACT, [], [added()]), "not in the table any more")
    conflicting(metadata, CommitRequest(COMPACT, [], [replace(a, bucket=1)]), "not in the table any more")
    conflicting(metadata, CommitRequest(COMPACT, [], [a, a]), "not in the table any more")
    conflicting(metadata, CommitRequest(COMPACT, [a]), "in the table already")
    new = added(data_file(50, 60, level=4))
    conflicting(metadata, CommitRequest(COMPACT, [new, new]), "in the table already")
    conflicting(metadata, CommitRequest(OVERWRITE, [], [added()]), "not in the table any more")


def test_key_ranges_of_a_level_conflict(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    committer = Committer(metadata, schema, "me")
    committer.commit(CommitRequest(COMPACT, [added(data_file(0, 9, level=5)), added(data_file(20, 29, level=5))]))
    for kind in (COMPACT, OVERWRITE, APPEND):
        for low, high in ((9, 12), (15, 20), (-5, 0), (3, 4), (-5, 50)):
            conflicting(metadata, CommitRequest(kind, [added(data_file(low, high, level=5))]), "overlap at level 5")
    committer.commit(CommitRequest(COMPACT, [added(data_file(10, 19, level=5)), added(data_file(0, 50, level=4))]))
    committer.commit(CommitRequest(COMPACT, [added(data_file(0, 9, level=5), bucket=1)]))
    committer.append([added(data_file(0, 50))])


def test_signed_keys_are_compared_as_numbers(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    request = CommitRequest(COMPACT, [added(data_file(-9, -1, level=5)), added(data_file(0, 300, level=5))])
    assert Committer(metadata, schema, "me").commit(request).id == 1


def test_another_number_of_buckets_conflicts(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path, partitioned=True)
    one, two = row(1), row(2)
    committer = Committer(metadata, schema, "me")
    committer.append([added(partition=one, total_buckets=2)])
    for kind in (APPEND, COMPACT):
        conflicting(metadata, CommitRequest(kind, [added(partition=one, total_buckets=4)]), "overwrite it")
        mixed = [added(partition=two, total_buckets=n) for n in (2, 4)]
        conflicting(metadata, CommitRequest(kind, mixed), "overwrite it")
    committer.append([added(partition=two, total_buckets=4)])
    committer.append([added(partition=one, total_buckets=-2, bucket=-2)])
    rescaled = committer.overwrite([added(partition=one, total_buckets=4)], one.__eq__)
    assert {e.total_buckets for e in live_files(metadata, rescaled) if e.bucket >= 0} == {4}
    committer.append([added(partition=one, total_buckets=4)])
    committer.overwrite([], one.__eq__)
    committer.append([added(partition=one, total_buckets=8)])


def test_deletion_vectors_conflict_when_somebody_else_changed_them(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    committer = Committer(metadata, schema, "me")
    file = added(data_file(0, 9, level=5))
    committer.commit(CommitRequest(COMPACT, [file]))

    def vectors(*positions: int) -> IndexEntry:
        return metadata.indexes.write_vectors(EMPTY_ROW, 0, {file.file.name: DeletionVector.of(positions)}, schema)

    first = vectors(1)
    request = CommitRequest(COMPACT, index_changes=[first], vectors_from={(EMPTY_ROW, 0): None})
    snapshot = committer.commit(request)
    assert [e.name for e in metadata.indexes.of_snapshot(snapshot).entries] == [first.name]
    stale = CommitRequest(COMPACT, index_changes=[vectors(2)], vectors_from={(EMPTY_ROW, 0): None})
    conflicting(metadata, stale, "deletion vectors of bucket 0")
    second = vectors(1, 2)
    snapshot = committer.commit(
        CommitRequest(COMPACT, index_changes=[second], vectors_from={(EMPTY_ROW, 0): first.name})
    )
    (entry,) = metadata.indexes.of_snapshot(snapshot).entries
    assert (entry.name, entry.index_type) == (second.name, DELETION_VECTORS)


def test_the_size_of_the_index_manifest_is_recorded(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    committer = Committer(metadata, schema, "me")

    def marked(name: str, *positions: int) -> Snapshot:
        entry = metadata.indexes.write_vectors(EMPTY_ROW, 0, {name: DeletionVector.of(positions)}, schema)
        return committer.commit(CommitRequest(COMPACT, index_changes=[entry]))

    file = added(data_file(0, 9, level=5))
    committer.commit(CommitRequest(COMPACT, [file]))
    one = marked(file.file.name, 1)
    path = Path(metadata.paths.manifest(one.index_manifest or ""))
    recorded = {INDEX_MANIFEST: f"{path.stat().st_size} {one.index_manifest}"}
    assert one.properties is not None
    assert recorded.items() <= one.properties.items()
    two = committer.append([added(data_file(10, 12))])
    assert two.index_manifest == one.index_manifest
    assert two.properties is not None
    assert recorded.items() <= two.properties.items()
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(whole[-16:]) + 16])
    for snapshot in (one, two):
        with pytest.raises(CorruptFile, match="its snapshot recorded"):
            metadata.indexes.of_snapshot(snapshot)
    path.write_bytes(whole)
    three = marked(file.file.name, 1, 2)
    assert three.index_manifest != one.index_manifest
    # What a writer that carries on all properties would write: they speak of another file.
    stale = replace(three, properties=two.properties)
    assert metadata.indexes.of_snapshot(stale) == metadata.indexes.of_snapshot(three)
    lying = replace(three, properties={INDEX_MANIFEST: f"many {three.index_manifest}"})
    with pytest.raises(CorruptFile, match="'many'"):
        metadata.indexes.of_snapshot(lying)


# --------------------------------------------------------------------------- the greatest sequence number


def test_the_greatest_sequence_number_is_recorded(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    committer = Committer(metadata, schema, "me")
    assert max_sequence(metadata, None) == -1
    high = added(data_file(0, 900))
    one = committer.append([high])
    assert one.properties == {MAX_SEQUENCE: "900"}
    two = committer.append([added(data_file(0, 5))])
    assert max_sequence(metadata, two) == 900
    three = committer.overwrite([added(data_file(0, 3))], lambda _: True)
    assert max_sequence(metadata, three) == 900

    java = replace(three, id=4, properties=None)
    assert metadata.snapshots.publish(java)
    assert max_sequence(metadata, java) == 3
    unknown = committer.append([added(data_file(0, 7))])
    assert unknown.properties is None
    assert max_sequence(metadata, unknown) == 7
    stale = committer.append([added(data_file(0, 6))], known_maximum=(4, 3))
    assert stale.properties is None
    known = committer.append([added(data_file(0, 6))], known_maximum=(6, 7))
    assert known.properties == {MAX_SEQUENCE: "7"}


def test_some_buckets_tell_their_own_maximum(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    snapshot = Committer(metadata, schema, "me").append(
        [added(data_file(0, 5), bucket=0), added(data_file(0, 9), bucket=1)]
    )
    bare = replace(snapshot, properties=None)
    assert max_sequence(metadata, bare) == 9
    assert max_sequence(metadata, bare, lambda partition, bucket, total: bucket == 0) == 5


def test_null_partitions_are_partitions(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path, partitioned=True)
    null, seven = serialize([pa.array([None, 7], pa.int32())], [DataType("INT")])
    committer = Committer(metadata, schema, "me")
    committer.append([added(partition=null), added(partition=seven)])
    snapshot = committer.overwrite([], null.__eq__)
    assert {e.partition for e in live_files(metadata, snapshot)} == {seven}
