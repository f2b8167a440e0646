"""Live files: additions minus deletions, and what is left unread."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import fastavro
import pytest

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.commit import Committer
from paimon_spark.metadata.commit_request import CommitRequest
from paimon_spark.metadata.live_files import holding, live_entries, live_files, within
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import COMPACT
from paimon_spark.metadata.table_metadata import TableMetadata
from tests.metadata.made_up import added, data_file, new_table, row


def manifests(metadata: TableMetadata, schema: TableSchema, *contents: Sequence[ManifestEntry]) -> list[ManifestFile]:
    return [manifest for entries in contents for manifest in metadata.manifests.write(entries, schema)]


def test_deletions_cancel_additions_wherever_they_stand(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    a, b, c = added(), added(), added()
    for contents in ([[a, b], [a.deleted(), c]], [[a.deleted(), c], [a, b]], [[a, b, a.deleted(), c]]):
        live = live_entries(metadata.manifests, manifests(metadata, schema, *contents))
        assert {e.file.name for e in live} == {b.file.name, c.file.name}


@pytest.mark.parametrize(
    "change",
    [
        {"level": 5},
        {"extra_files": ("x.index",)},
        {"embedded_index": b"x"},
        {"external_path": "/elsewhere/x"},
        {"name": "other"},
    ],
)
def test_a_file_may_come_back_under_another_identifier(tmp_path: Path, change: dict[str, object]) -> None:
    metadata, schema = new_table(tmp_path)
    old = added()
    new = replace(old, file=old.file._replace(**change))
    assert live_entries(metadata.manifests, manifests(metadata, schema, [old], [old.deleted(), new])) == [new]


def test_statistics_are_not_part_of_the_identifier(tmp_path: Path) -> None:
    """Writers may drop the statistics of deletions."""
    metadata, schema = new_table(tmp_path)
    old = added()
    bare = replace(old, file=old.file._replace(value_stats=data_file(5, 6).value_stats, value_stats_cols=()))
    assert live_entries(metadata.manifests, manifests(metadata, schema, [old], [bare.deleted()])) == []


def test_a_file_added_twice_is_corruption(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    twice = added()
    with pytest.raises(CorruptFile, match=twice.file.name):
        live_entries(metadata.manifests, manifests(metadata, schema, [twice], [twice]))


def test_manifests_of_other_partitions_are_not_read(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path, partitioned=True)
    listed = manifests(metadata, schema, *([added(partition=row(p))] for p in range(10)))
    for manifest in listed[:4] + listed[6:]:
        (tmp_path / "manifest" / manifest.name).unlink()
    wanted = {row(4), row(5)}
    live = live_entries(metadata.manifests, listed, holding(wanted, schema), within(wanted))
    assert {e.partition for e in live} == wanted
    assert live_entries(metadata.manifests, listed, holding({row(99)}, schema)) == []


def test_random_histories_against_a_model(tmp_path: Path) -> None:
    """Appends, compactions and merges of manifests: live files are always those that a set of names says."""
    chance = random.Random(7)
    metadata, schema = new_table(
        tmp_path,
        {"manifest.merge-min-count": "3", "manifest.full-compaction-threshold-size": "30 kb"},
        partitioned=True,
    )
    model: dict[str, ManifestEntry] = {}
    committer = Committer(metadata, schema, "u")
    kinds = []
    for number in range(60):
        partition = row(chance.randrange(4))
        new = [
            added(data_file(number * 10 + i, number * 10 + i), partition, chance.randrange(2))
            for i in range(chance.randrange(1, 4))
        ]
        mine = [e for e in model.values() if e.partition == partition and e.file.level == 0]
        if number % 3 == 2 and mine:
            new = [replace(e, file=e.file.at_level(5)) for e in mine[:3]] + new
            snapshot = committer.commit(CommitRequest(COMPACT, new, mine[:5]))
            for entry in mine[:5]:
                del model[entry.file.name]
        else:
            snapshot = committer.append(new)
        model.update({e.file.name: e for e in new})
        kinds.append(snapshot.commit_kind)
        live = live_files(metadata, snapshot)
        assert {e.file.name: e for e in live} == model
        assert snapshot.total_record_count == sum(e.file.row_count for e in model.values())
    assert kinds.count(COMPACT) > 10


def test_planning_ten_thousand_files_is_quick(tmp_path: Path) -> None:
    """Held against what Avro alone takes for the same manifests on this machine at this time; of both the quickest of
    some times, for Python may collect the garbage of the tests before during the others."""
    metadata, schema = new_table(tmp_path)
    batches = [[added(data_file(i * 100 + j, i * 100 + j)) for j in range(100)] for i in range(100)]
    listed = manifests(metadata, schema, *batches)
    contents = [(tmp_path / "manifest" / manifest.name).read_bytes() for manifest in listed]

    def decode() -> int:
        return sum(1 for content in contents for _ in fastavro.reader(io.BytesIO(content)))

    def plan() -> int:
        return len(live_entries(metadata.manifests, listed))

    spent: dict[Callable[[], int], list[float]] = {decode: [], plan: []}
    for _ in range(5):
        for work, times in spent.items():
            started = time.process_time()
            assert work() == 10_000
            times.append(time.process_time() - started)
    assert min(spent[plan]) < 5 * min(spent[decode]), f"{spent} s of CPU time"
