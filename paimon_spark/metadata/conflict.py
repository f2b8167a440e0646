"""Conflicts: whether a commit's changes still fit the snapshot it is about to follow.

Level-0 additions never conflict: of two rows with one key the greater sequence number wins at read. What conflicts
is rewriting: a file that someone else has removed meanwhile, or a file at level 1 or higher whose key range overlaps
another of its level, where readers rely on sorted, disjoint files.

Source: ``ConflictDetection`` and ``PrimaryKeyConflictDetection`` of Apache Paimon.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from paimon_spark.errors import CommitConflict
from paimon_spark.metadata.key_order import comparable_rows
from paimon_spark.metadata.live_files import holding, live_entries, within
from paimon_spark.metadata.manifest import ADD, Identifier, ManifestEntry
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.manifest_store import ManifestStore
from paimon_spark.metadata.schema import TableSchema


def files_after(live: Iterable[ManifestEntry], changes: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The live files after the changes, which apply in their order.

    :raises CommitConflict: a change adds a file that is live, or deletes one that is not
    """
    files: dict[Identifier, ManifestEntry] = {entry.identifier: entry for entry in live}
    for entry in changes:
        identifier = entry.identifier
        if entry.kind == ADD and identifier in files:
            raise CommitConflict(f"data file {entry.file.name} at level {entry.file.level} is in the table already")
        if entry.kind == ADD:
            files[identifier] = entry
        elif files.pop(identifier, None) is None:
            raise CommitConflict(
                f"data file {entry.file.name} at level {entry.file.level} of bucket {entry.bucket}, which this commit "
                "replaces, is not in the table any more: another compaction or overwrite was faster; try again"
            )
    return list(files.values())


def check_key_ranges(files: Iterable[ManifestEntry], changes: Iterable[ManifestEntry], schema: TableSchema) -> None:
    """Check that in each bucket that changes, files of one level >= 1 do not overlap.

    :raises CommitConflict: two do
    """
    changed = {(entry.partition, entry.bucket) for entry in changes}
    runs: dict[tuple[bytes, int, int], list[ManifestEntry]] = defaultdict(list)
    for entry in files:
        if entry.file.level > 0 and (entry.partition, entry.bucket) in changed:
            runs[entry.partition, entry.bucket, entry.file.level].append(entry)
    crowded = [run for run in runs.values() if len(run) > 1]
    members = [entry for run in crowded for entry in run]
    types = [field.type for field in schema.key_fields]
    lowest = comparable_rows([entry.file.min_key for entry in members], types)
    highest = comparable_rows([entry.file.max_key for entry in members], types)
    start = 0
    for run in crowded:
        order = sorted(range(start, start + len(run)), key=lowest.__getitem__)
        for left, right in pairwise(order):
            if not highest[left] < lowest[right]:
                raise CommitConflict(
                    f"data files {members[left].file.name} and {members[right].file.name} of bucket {run[0].bucket} "
                    f"would overlap at level {run[0].file.level}: another compaction was faster; try again"
                )
        start += len(run)


def check_bucket_numbers(
    store: ManifestStore, manifests: Sequence[ManifestFile], adds: Iterable[ManifestEntry], schema: TableSchema
) -> None:
    """Check that new files were written for as many buckets as the files that their partition has.

    The newest addition to a partition tells, and only when it disagrees are the live files consulted: after a
    partition was emptied, it may be filled with another number of buckets.

    :raises CommitConflict: the numbers differ
    """
    mine = _numbers(adds)
    different = {p for p, number in _newest_numbers(store, manifests, set(mine), schema).items() if number != mine[p]}
    if not different:
        return
    live = live_entries(store, manifests, holding(different, schema), within(different))
    for partition, number in _numbers(live).items():
        if number != mine[partition]:
            raise _bucket_conflict(mine[partition], number)


def _numbers(entries: Iterable[ManifestEntry]) -> dict[bytes, int]:
    """The number of buckets of each partition that the entries are in.

    :raises CommitConflict: two entries of a partition disagree
    """
    numbers: dict[bytes, int] = {}
    for entry in entries:
        if entry.total_buckets > 0 and numbers.setdefault(entry.partition, entry.total_buckets) != entry.total_buckets:
            raise _bucket_conflict(numbers[entry.partition], entry.total_buckets)
    return numbers


def check_same_bucket_numbers(files: Iterable[ManifestEntry]) -> None:
    """Check that all files of a partition were written for the same number of buckets.

    :raises CommitConflict: they were not
    """
    _numbers(files)


def _bucket_conflict(mine: int, theirs: int) -> CommitConflict:
    return CommitConflict(
        f"files for {mine} buckets cannot join a partition with files for {theirs} buckets; to change the number of "
        "buckets of a partition, overwrite it"
    )


def _newest_numbers(
    store: ManifestStore, manifests: Sequence[ManifestFile], partitions: set[bytes], schema: TableSchema
) -> Mapping[bytes, int]:
    """The bucket number of the newest addition to each of the partitions that has one."""
    found: dict[bytes, int] = {}
    missing = set(partitions)
    for manifest in reversed(manifests):
        if not missing:
            break
        if manifest.added == 0 or not holding(missing, schema)(manifest):
            continue
        for entry in reversed(store.read(manifest, within(missing))):
            if entry.kind == ADD and entry.total_buckets > 0:
                found.setdefault(entry.partition, entry.total_buckets)
        missing -= found.keys()
    return found
