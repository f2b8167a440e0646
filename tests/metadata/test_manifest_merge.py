"""Merging manifests: what is decided, and that nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.commit import Committer
from paimon_spark.metadata.data_file import Statistics
from paimon_spark.metadata.live_files import live_entries, live_files
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.manifest_merge import ManifestMerge, MergeLimits, full_is_due, merge_in_order, minor_groups
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import Options
from tests.metadata.made_up import added, names_in, new_table, row

LIMITS = MergeLimits(target_size=100, full_threshold=200, min_count=3)


def listed(size: int, deleted: int = 0) -> ManifestFile:
    return ManifestFile(f"m-{size}-{deleted}", size, 1, deleted, Statistics(b"", b"", ()), 0)


def sizes(groups: Sequence[Sequence[ManifestFile]]) -> list[list[int]]:
    return [[m.size for m in group] for group in groups]


def test_limits_have_the_defaults_of_java() -> None:
    assert MergeLimits.of(Options()) == MergeLimits(8 * 2**20, 16 * 2**20, 30)


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ([], []),
        ([10, 10], [[10], [10]]),
        ([10, 10, 10], [[10, 10, 10]]),
        ([60, 40, 10, 10], [[60, 40], [10], [10]]),
        ([120, 10, 95, 7], [[120], [10, 95], [7]]),
        ([120, 10, 10, 10, 10], [[120], [10, 10, 10, 10]]),
    ],
)
def test_minor_groups(given: list[int], groups: list[list[int]]) -> None:
    assert sizes(minor_groups([listed(size) for size in given], LIMITS)) == groups


def test_full_is_due_when_enough_would_change() -> None:
    assert not full_is_due([listed(1000), listed(1000)], LIMITS)
    assert not full_is_due([listed(99), listed(99)], LIMITS)
    assert full_is_due([listed(99), listed(99), listed(2)], LIMITS)
    assert full_is_due([listed(1000, deleted=1)], LIMITS)


def test_merging_in_order() -> None:
    a, b, c = added(), added(), added()
    assert merge_in_order([a, b, a.deleted(), c.deleted()], "m") == [b, c.deleted()]
    for twice in ([a, a], [a.deleted(), a.deleted()], [a.deleted(), a]):
        with pytest.raises(CorruptFile, match=a.file.name):
            merge_in_order(twice, "m")


def written(metadata: TableMetadata, schema: TableSchema, *contents: Sequence[ManifestEntry]) -> list[ManifestFile]:
    return [manifest for entries in contents for manifest in metadata.manifests.write(entries, schema)]


def test_a_minor_merge_keeps_deletions_of_earlier_files(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path, {"manifest.merge-min-count": "2", "manifest.target-file-size": "100 mb"})
    early, a, b = added(), added(), added()
    before = written(metadata, schema, [a], [b, early.deleted()], [a.deleted()])
    merge = ManifestMerge(metadata.manifests, schema)
    (after,) = merge.merge(before)
    assert metadata.manifests.read(after) == [b, early.deleted()]
    assert (after.added, after.deleted) == (1, 1)
    assert merge.written == [after]


def test_a_group_that_cancels_out_disappears(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path, {"manifest.merge-min-count": "2"})
    a = added()
    assert ManifestMerge(metadata.manifests, schema).merge(written(metadata, schema, [a], [a.deleted()])) == []


def test_a_full_merge_drops_all_deletions_and_leaves_others_alone(tmp_path: Path) -> None:
    options = {"manifest.target-file-size": "1 b", "manifest.full-compaction-threshold-size": "1 b"}
    metadata, schema = new_table(tmp_path, options, partitioned=True)
    first, second = row(1), row(2)
    a, b, c, d = added(partition=first), added(partition=first), added(partition=second), added(partition=first)
    kept, untouched, hit, deleting = written(metadata, schema, [c], [d], [a, b], [a.deleted()])
    after = ManifestMerge(metadata.manifests, schema).merge([kept, untouched, hit, deleting])
    assert after[:2] == [kept, untouched]
    assert [metadata.manifests.read(m) for m in after[2:]] == [[b]]


def test_a_full_merge_of_one_manifest_is_not_worth_it(tmp_path: Path) -> None:
    options = {"manifest.full-compaction-threshold-size": "1 b"}
    metadata, schema = new_table(tmp_path, options)
    before = written(metadata, schema, [added()])
    merge = ManifestMerge(metadata.manifests, schema)
    assert merge.merge(before) == before
    assert merge.written == []


@pytest.mark.parametrize(
    ("options", "commits"), [({}, 300), ({"manifest.full-compaction-threshold-size": "20 kb"}, 60)]
)
def test_many_commits_keep_manifests_few(tmp_path: Path, options: dict[str, str], commits: int) -> None:
    metadata, schema = new_table(tmp_path, options)
    committer = Committer(metadata, schema, "u")
    counts = []
    for _ in range(commits):
        snapshot = committer.append([added()])
        counts.append(len(metadata.manifests.of_snapshot(snapshot)))
    assert max(counts) <= 31
    assert len(live_files(metadata, snapshot)) == commits
    assert snapshot.total_record_count == 10 * commits
    lists = {m.name for m in metadata.manifests.of_snapshot(snapshot)}
    assert lists <= names_in(metadata.paths.manifest_directory)


def test_merged_content_is_the_same(tmp_path: Path) -> None:
    options = {"manifest.merge-min-count": "2", "manifest.target-file-size": "3 kb"}
    metadata, schema = new_table(tmp_path, options, partitioned=True)
    entries = [added(partition=row(i % 3), bucket=i % 2) for i in range(40)]
    contents = [[e] for e in entries] + [[e.deleted()] for e in entries[::4]]
    before = written(metadata, schema, *contents)
    after = ManifestMerge(metadata.manifests, schema).merge(before)
    assert len(after) < len(before)
    assert live_entries(metadata.manifests, after) == live_entries(metadata.manifests, before)
