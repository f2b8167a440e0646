"""Orphan files: what nothing refers to goes, when it is old enough; everything else stays."""

from __future__ import annotations

import os
import shutil
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptFile, InvalidInput, NotFound
from paimon_spark.storage.local import LocalStorage
from paimon_spark.table import PaimonTable
from tests.metadata.tables import table_directories

AGED = time.time() - 2 * 86_400


def new_table(path: Path, **options: str) -> PaimonTable:
    schema = pa.schema([("day", pa.string()), ("k", pa.int64()), ("v", pa.int64())])
    return PaimonTable.create(str(path), schema, ["day", "k"], ["day"], {"bucket": "2", **options})


def append(table: PaimonTable, day: str = "mon") -> None:
    table.append(pa.table({"day": [day] * 3, "k": [1, 2, 3], "v": [1, 2, 3]}))


def age(root: Path) -> None:
    """Make every file two days old."""
    for directory, _, names in os.walk(root):
        for name in names:
            os.utime(os.path.join(directory, name), (AGED, AGED))


def left_behind(root: Path) -> set[Path]:
    """Files that a killed writer may leave, at every place where it may."""
    names = (
        "day=mon/bucket-0/data-orphan-0.parquet",
        "day=tue/bucket-1/data-orphan-1.parquet",
        "manifest/manifest-orphan-0",
        "manifest/manifest-list-orphan-0",
        "index/index-orphan-0",
        "statistics/stat-orphan-0",
        "snapshot/.snapshot-9.0c5a.tmp",
        "snapshot/.LATEST.0c5a.tmp",
        "schema/.schema-1.0c5a.tmp",
    )
    for name in names:
        LocalStorage().write(str(root / name), b"left behind")
    return {root / name for name in names}


def foreign(root: Path) -> set[Path]:
    """Files that do not belong to the table's layout."""
    names = ("notes.txt", "day=mon/notes.txt", "other=1/bucket-0/x", "bucket-0/x", "day=mon/buckets/x", "snapshot/x")
    for name in names:
        LocalStorage().write(str(root / name), b"not of this table")
    return {root / name for name in names}


def files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.is_file()}


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    append(table)
    append(table, "mon/../../tue")
    live = files(tmp_path)
    others = foreign(tmp_path)
    orphans = left_behind(tmp_path)
    age(tmp_path)
    rows = table.read()
    assert set(map(Path, table.remove_orphan_files(dry_run=True))) == orphans
    assert files(tmp_path) == live | others | orphans
    assert set(map(Path, table.remove_orphan_files())) == orphans
    assert files(tmp_path) == live | others
    assert table.read().equals(rows)
    assert table.remove_orphan_files() == []


def test_young_files_stay(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    append(table)
    age(tmp_path)
    young = left_behind(tmp_path)
    assert table.remove_orphan_files() == []
    assert set(map(Path, table.remove_orphan_files(timedelta(0)))) == young


def test_files_of_a_write_under_way_become_live(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    write = table.new_write()
    task = write.task(0)
    task.write(pa.table({"day": ["mon"], "k": [1], "v": [1]}))
    message = task.finish()
    age(tmp_path)
    assert len(table.remove_orphan_files(dry_run=True)) == 1
    write.commit([message])
    assert table.remove_orphan_files() == []


def test_a_file_committed_between_listing_and_reading_is_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path)
    write = table.new_write()
    task = write.task(0)
    task.write(pa.table({"day": ["mon"], "k": [1], "v": [1]}))
    message = task.finish()
    age(tmp_path)
    listing = LocalStorage.list

    def commit_meanwhile(self: LocalStorage, directory: str) -> list[object]:
        listed = listing(self, directory)
        if directory.endswith(("/bucket-0", "/bucket-1")):
            monkeypatch.setattr(LocalStorage, "list", listing)
            write.commit([message])
        return listed  # type: ignore[return-value]

    monkeypatch.setattr(LocalStorage, "list", commit_meanwhile)
    assert table.remove_orphan_files() == []
    assert table.snapshot() is not None


def test_tags_and_branches_keep_their_files(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    append(table)
    append(table)
    append(table)
    for kept, name in ((1, "tag/tag-first"), (2, "branch/branch-b/snapshot/snapshot-2")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(tmp_path / f"snapshot/snapshot-{kept}", tmp_path / name)
    with pytest.raises(CorruptFile, match=r"branch-b.*no schema"):
        table.remove_orphan_files()
    shutil.copytree(tmp_path / "schema", tmp_path / "branch/branch-b/schema")
    age(tmp_path)
    assert table.remove_orphan_files() == []
    shutil.rmtree(tmp_path / "branch")
    gone = table.remove_orphan_files(dry_run=True)
    assert len([name for name in gone if "/manifest-list-" in name]) == 2
    assert table.read(options={"scan.tag-name": "first"}).num_rows == 3


@pytest.mark.parametrize("damaged", ["snapshot/snapshot-1", "manifest"])
def test_nothing_is_deleted_when_something_cannot_be_read(tmp_path: Path, damaged: str) -> None:
    table = new_table(tmp_path)
    append(table)
    left_behind(tmp_path)
    age(tmp_path)
    victim = tmp_path / damaged
    if victim.is_dir():
        victim = next(
            path for path in victim.glob("manifest-*") if "list" not in path.name and "orphan" not in path.name
        )
        victim.unlink()
    else:
        victim.write_bytes(b"{")
    before = files(tmp_path)
    with pytest.raises((CorruptFile, NotFound)):
        table.remove_orphan_files(timedelta(0))
    assert files(tmp_path) == before


def test_a_snapshot_that_expires_meanwhile_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path)
    append(table)
    append(table)
    orphans = left_behind(tmp_path)
    age(tmp_path)
    first = table.snapshot(1)
    assert first is not None
    read = LocalStorage.read

    def expire(self: LocalStorage, path: str, limit: int | None = None) -> bytes:
        data = read(self, path, limit)
        if path.endswith("snapshot-1"):
            monkeypatch.setattr(LocalStorage, "read", read)
            os.unlink(path)
            os.unlink(tmp_path / "manifest" / first.delta_manifest_list)
        return data

    monkeypatch.setattr(LocalStorage, "read", expire)
    assert orphans <= set(map(Path, table.remove_orphan_files()))
    assert table.read().num_rows == 3


def test_ages_and_tables_that_make_no_sense(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with pytest.raises(InvalidInput, match="negative"):
        table.remove_orphan_files(timedelta(days=-1))
    shutil.rmtree(tmp_path / "schema")
    with pytest.raises(NotFound, match="no Paimon table"):
        PaimonTable(
            table.metadata.__class__(LocalStorage(), str(tmp_path)), table.table_schema, {}
        ).remove_orphan_files()


def test_tables_that_java_wrote_have_no_orphan_but_those_that_expiry_left(golden: Path, tmp_path: Path) -> None:
    """Java removes what expired snapshots used; nothing that is left may be taken for an orphan and still be read."""
    checked = 0
    for directory in table_directories(golden):
        if not (directory / "snapshot").exists():
            continue
        copy = tmp_path / str(checked)
        shutil.copytree(directory, copy)
        table = PaimonTable.open(str(copy))
        removed = table.remove_orphan_files(timedelta(0))
        assert not [path for path in removed if "/bucket-" in path], directory
        checked += 1
    assert checked > 10
