"""Commits let old snapshots expire: not at their own cost, not against what others need, and never too much."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import CommitStateUnknown, StorageError, UnsupportedFeature
from paimon_spark.storage.local import LocalStorage
from paimon_spark.storage.storage import Storage
from paimon_spark.table import PaimonTable
from tests.faults.conftest import Use
from tests.faults.fault_storage import FaultStorage
from tests.sizes import sized

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
SOON = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2", "snapshot.time-retained": "0 ms"}
AT_ONCE = {**SOON, "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
DAY = 86_400_000


def new_table(path: Path, **options: str) -> PaimonTable:
    return PaimonTable.create(str(path), SCHEMA, ["k"], options={"bucket": "1", **options})


def append(table: PaimonTable, *values: int) -> None:
    for value in values:
        table.append(pa.table({"k": [value % 5], "v": [value]}))


def ids(table: PaimonTable) -> list[int]:
    return table.metadata.snapshots.ids()


def assert_whole(table: PaimonTable) -> None:
    assert table.check(all_snapshots=True) == []
    assert table.remove_orphan_files(timedelta(0), dry_run=True) == []


# --------------------------------------------------------------------------- when


def test_every_kind_of_commit_expires(tmp_path: Path) -> None:
    table = new_table(tmp_path, **SOON)
    append(table, *range(5))
    assert ids(table) == [4, 5]
    table.compact(full=True)
    assert ids(table) == [5, 6]
    table.overwrite(pa.table({"k": [9], "v": [9]}))
    assert ids(table) == [6, 7]
    assert (tmp_path / "snapshot/EARLIEST").read_text() == "6"
    assert_whole(table)


def test_young_snapshots_and_those_of_write_only_tables_stay(tmp_path: Path) -> None:
    young = new_table(tmp_path / "young", **{"snapshot.num-retained.min": "1"})
    append(young, *range(13))
    assert len(ids(young)) == 13
    left = new_table(tmp_path / "left", **SOON, **{"write-only": "true"})
    append(left, *range(5))
    left.compact()
    assert len(ids(left)) == 6
    assert left.expire_snapshots() == 4


def test_asynchronous_expiry_is_synchronous(tmp_path: Path) -> None:
    table = new_table(tmp_path, **SOON, **{"snapshot.expire.execution-mode": "async"})
    append(table, *range(4))
    assert ids(table) == [3, 4]


def test_consumers_keep_what_they_have_yet_to_read(tmp_path: Path) -> None:
    table = new_table(tmp_path, **SOON)
    (tmp_path / "consumer").mkdir()
    (tmp_path / "consumer/consumer-stream").write_text(json.dumps({"nextSnapshot": 3}))
    append(table, *range(8))
    assert ids(table) == [3, 4, 5, 6, 7, 8]
    (tmp_path / "consumer/consumer-stream").unlink()
    append(table, 8)
    assert ids(table) == [8, 9]


def test_changelogs_that_outlive_snapshots(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = new_table(tmp_path, **SOON, **{"changelog.time-retained": "1 d"})
    append(table, *range(4))
    assert len(ids(table)) == 4
    assert "the expiry of older ones after it failed: UnsupportedFeature: option 'changelog.time-ret" in caplog.text
    with pytest.raises(UnsupportedFeature, match=r"changelog\.time-retained"):
        table.expire_snapshots()


class Counting(LocalStorage):
    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> object:
        if name in vars(Storage):
            self.calls[name] += 1
        return super().__getattribute__(name)


@pytest.mark.parametrize("options", [{}, SOON], ids=["nothing is due", "one is due"])
def test_the_fiftieth_commit_costs_what_the_twentieth_did(tmp_path: Path, use: Use, options: dict[str, str]) -> None:
    """Manifests are not merged meanwhile, which costs something every thirtieth commit."""
    storage = Counting()
    use(storage)
    table = new_table(tmp_path, **options, **{"manifest.merge-min-count": "1000"})
    costs = []
    for value in range(50):
        storage.calls.clear()
        append(table, value)
        costs.append(dict(storage.calls))
    assert costs[49] == costs[20]
    if not options:
        assert costs[49]["list"] == costs[5]["list"]
        assert "delete" not in costs[49]


def test_a_file_that_changes_its_level_stays(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"write-only": "true"})
    append(table, 0)
    before = table.files()["file_path"]
    table.compact(full=True)
    assert table.files()["file_path"] == before
    assert table.files()["level"].to_pylist() == [5]
    assert table.expire_snapshots(1, 1) == 1
    assert table.read().num_rows == 1
    assert_whole(table)


# --------------------------------------------------------------------------- what goes wrong


def test_a_failing_expiry_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = new_table(tmp_path, **SOON)
    append(table, 0, 1)
    (tmp_path / "tag").mkdir()
    (tmp_path / "tag/tag-torn").write_text("{")
    with caplog.at_level(logging.WARNING, "paimon_spark"):
        append(table, 2)
    assert "snapshot 3 is committed, but the expiry of older ones after it failed: CorruptFile" in caplog.text
    assert ids(table) == [1, 2, 3]
    (tmp_path / "tag/tag-torn").unlink()
    append(table, 3)
    assert ids(table) == [3, 4]
    assert_whole(table)


def test_any_failure_of_expiry_leaves_snapshots_whole(tmp_path: Path, use: Use) -> None:
    """Each operation of an expiry fails, from then on: what is there is whole, and what is left over an orphan."""
    table = new_table(tmp_path / "t", **{"write-only": "true"})
    append(table, *range(3))
    table.compact(full=True)
    append(table, *range(3))
    table.compact(full=True)
    number, struck = 0, True
    while struck:
        path = tmp_path / str(number)
        shutil.copytree(table.path, path)
        copy = PaimonTable.open(str(path))
        storage = FaultStorage(number, lasting=True)
        use(storage)
        try:
            expired = PaimonTable.open(str(path)).expire_snapshots(2, 2, timedelta(0))
        except StorageError:
            expired = -1
        struck = storage.struck
        use(LocalStorage())
        assert copy.check(all_snapshots=True) == []
        assert copy.read().num_rows == 3
        assert expired == 6 or struck
        copy.expire_snapshots(2, 2, timedelta(0))
        copy.remove_orphan_files(timedelta(0))
        assert ids(copy) == [7, 8]
        assert_whole(copy)
        shutil.rmtree(path)
        number += sized(5, 1)
    assert number > 60


def test_what_an_interrupted_expiry_of_java_left_expires(tmp_path: Path) -> None:
    """Java deletes the files of a snapshot before the snapshot."""
    table = new_table(tmp_path, **{"write-only": "true"})
    append(table, *range(3))
    table.compact(full=True)
    append(table, 3, 4)
    for id_ in (1, 2):
        snapshot = table.snapshot(id_)
        assert snapshot is not None
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            (tmp_path / "manifest" / name).unlink()
    (tmp_path / "snapshot/snapshot-1").unlink()
    assert table.expire_snapshots(2, 1, timedelta(0)) == 4
    assert ids(table) == [6]
    assert table.check(all_snapshots=True) == []


def test_a_gap_costs_no_file(tmp_path: Path) -> None:
    """Nobody knows what a snapshot had that stands alone: its files are left to the clean-up of orphans."""
    table = new_table(tmp_path, **{"write-only": "true"})
    append(table, *range(3))
    table.compact(full=True)
    append(table, 3)
    stray = json.loads((tmp_path / "snapshot/snapshot-4").read_text())
    for id_ in (1, 2, 4):
        (tmp_path / f"snapshot/snapshot-{id_}").unlink()
    (tmp_path / "snapshot/snapshot-1").write_text(json.dumps({**stray, "id": 1}))
    before = {path for path in tmp_path.rglob("*-*") if path.parent.name != "snapshot"}
    assert table.expire_snapshots(1, 1) == 2
    assert {path for path in tmp_path.rglob("*-*") if path.parent.name != "snapshot"} == before
    assert table.check(all_snapshots=True) == []


def test_a_tag_made_at_the_last_moment_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, **{"write-only": "true"})
    append(table, *range(3))
    table.compact(full=True)
    delete = LocalStorage.delete

    def tag_first(self: LocalStorage, path: str) -> None:
        if path.endswith("snapshot-3"):
            (tmp_path / "tag").mkdir()
            shutil.copy(path, tmp_path / "tag/tag-kept")
        delete(self, path)

    monkeypatch.setattr(LocalStorage, "delete", tag_first)
    assert table.expire_snapshots(1, 1) == 3
    assert table.read(options={"scan.tag-name": "kept"}).num_rows == 3
    assert_whole(table)


# --------------------------------------------------------------------------- clocks


@pytest.mark.parametrize("skew", [-DAY, DAY], ids=["a day behind", "a day ahead"])
def test_clocks_that_are_wrong_remove_nothing_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew: int) -> None:
    """Of the writers, of who expires and of who looks for orphans."""
    right, wrong = time.time, time.time_ns
    table = new_table(tmp_path, **{"snapshot.num-retained.min": "2"})
    for value in range(9):
        if value % 3 == 2:
            monkeypatch.setattr(time, "time", lambda: right() + skew / 1000)
            monkeypatch.setattr(time, "time_ns", lambda: wrong() + skew * 10**6)
        append(table, value)
        if value % 4 == 3:
            table.compact(full=True)
        table.expire_snapshots()
        table.remove_orphan_files(timedelta(hours=12))
        monkeypatch.undo()
        assert table.read().num_rows == min(value + 1, 5)
        assert table.check(all_snapshots=True) == []
        assert len(ids(table)) >= min(value, 2)


def test_a_snapshot_of_the_future_keeps_those_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, **{"write-only": "true"})
    append(table, 0)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 86_400)
    append(table, 1)
    monkeypatch.undo()
    append(table, 2, 3)
    assert table.expire_snapshots(retain_min=1) == 0
    assert table.expire_snapshots(1, 1) == 3


# --------------------------------------------------------------------------- writers that stand still


class Sleeping(LocalStorage):
    """A writer that stands still before it publishes, while others commit, and their snapshots expire."""

    def __init__(self, others: list[object], unanswered: bool = False) -> None:
        self.others = others
        self.unanswered = unanswered

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if not self.others:
            return super().put_if_absent(path, data)
        if self.unanswered:
            super().put_if_absent(path, data)
        self.others.pop()()  # type: ignore[operator]
        if self.unanswered:
            raise StorageError("no answer")
        return super().put_if_absent(path, data)


@pytest.mark.parametrize("commits", [1, 2, 5])
@pytest.mark.parametrize("earlier", [0, 3])
def test_a_writer_that_stands_still_is_not_lost(tmp_path: Path, use: Use, earlier: int, commits: int) -> None:
    """The id that it wants has been used, and is free again."""
    table = new_table(tmp_path, **AT_ONCE)
    append(table, *range(earlier))

    def others() -> None:
        append(table, *range(10, 10 + commits))
        table.compact(full=True)

    use(Sleeping([others]))
    PaimonTable.open(table.path).append(pa.table({"k": [7], "v": [7]}))
    use(LocalStorage())
    newest = earlier + commits + 2
    assert ids(table) == [newest]
    assert (tmp_path / "snapshot/LATEST").read_text() == str(newest)
    values = table.read().to_pylist()
    assert sorted(row["k"] for row in values) == [*range(max(earlier, commits)), 7]
    assert_whole(table)


def test_a_commit_whose_snapshot_expired_before_it_was_answered(tmp_path: Path, use: Use) -> None:
    table = new_table(tmp_path, **AT_ONCE)
    append(table, 0, 1)

    def others() -> None:
        append(table, 10, 11)
        table.compact(full=True)

    use(Sleeping([others], unanswered=True))
    with pytest.raises(CommitStateUnknown, match="let snapshot 3 expire"):
        append(PaimonTable.open(table.path), 4)
    use(LocalStorage())
    assert ids(table) == [6]
    assert {"k": 4, "v": 4} in table.read().to_pylist()
    assert table.check() == []


def test_a_commit_is_in_the_history_when_the_one_before_it_has_expired(tmp_path: Path, use: Use) -> None:
    """Others commit upon it, and let expire what was before it, between its put and its look back."""
    table = new_table(tmp_path, **SOON)
    append(table, 0, 1)

    class Slow(LocalStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            done = super().put_if_absent(path, data)
            append(table, 10)
            return done

    use(Slow())
    PaimonTable.open(table.path).append(pa.table({"k": [4], "v": [4]}))
    use(LocalStorage())
    assert ids(table) == [3, 4]
    assert sorted(row["v"] for row in table.read().to_pylist()) == [1, 4, 10]
    assert_whole(table)
