"""Commits that are repeated have one effect, and writes that are given up leave nothing."""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptFile, PaimonError
from paimon_spark.metadata.commit import Committer
from paimon_spark.metadata.commit_record import COMMITTED, MAX_USERS, is_recorded
from paimon_spark.storage.local import LocalStorage
from paimon_spark.table import PaimonTable
from tests.faults.conftest import Use
from tests.faults.fault_storage import BEFORE, FaultStorage
from tests.sizes import seeded, sized

SCHEMA = pa.schema([("p", pa.int64()), ("id", pa.int64()), ("v", pa.int64())])


def new_table(path: Path) -> str:
    PaimonTable.create(str(path), SCHEMA, ["p", "id"], ["p"], {"bucket": "2"})
    return str(path)


def files(path: str) -> set[Path]:
    return {p for p in Path(path).rglob("*") if p.is_file() and p.name != "LATEST"}


def commit(path: str, user: str, identifier: int) -> int:
    """Write a row and commit it, as a job does after a restart: with new files, but the old user and identifier."""
    write = PaimonTable.open(path).new_write()
    write.user = user
    task = write.task(0)
    task.write(pa.table({"p": [1], "id": [identifier], "v": [identifier]}))
    snapshot = write.commit([task.finish()], identifier)
    assert snapshot is not None
    return snapshot.id


def test_repeated_commits_have_one_effect(tmp_path: Path) -> None:
    path = new_table(tmp_path / "t")
    chance = seeded("repeated commits")
    for number in range(sized(20, 200)):
        user, identifier = f"user-{number % 2}", number // 2
        first = commit(path, user, identifier)
        before = files(path)
        for _ in range(chance.randrange(1, 5)):
            assert commit(path, user, identifier) == first
            assert files(path) == before
        if identifier:
            earlier = chance.randrange(identifier)
            assert commit(path, user, earlier) <= first
            assert files(path) == before
    assert len(PaimonTable.open(path).snapshots()) == sized(20, 200)


def test_a_commit_is_known_when_its_snapshot_has_expired(tmp_path: Path) -> None:
    path = new_table(tmp_path / "t")
    for identifier in range(5):
        commit(path, "me", identifier)
    for expired in (1, 2, 3):
        os.unlink(f"{path}/snapshot/snapshot-{expired}")
    before = files(path)
    assert commit(path, "me", 1) == 5
    assert files(path) == before
    assert PaimonTable.open(path).read().num_rows == 5


def test_a_commit_is_known_when_all_snapshots_of_its_user_have_expired(tmp_path: Path) -> None:
    path = new_table(tmp_path / "t")
    for identifier in range(3):
        commit(path, "me", identifier)
    restarted = PaimonTable.open(path).new_write()
    restarted.user = "me"
    task = restarted.task(0)
    task.write(pa.table({"p": [1], "id": [2], "v": [99]}))
    message = task.finish()
    for identifier in range(3):
        commit(path, "other", identifier)
        PaimonTable.open(path).append(pa.table({"p": [1], "id": [2], "v": [identifier]}))
    table = PaimonTable.open(path)
    table.compact(full=True)
    assert table.expire_snapshots(1, 1) > 6
    table.remove_orphan_files(timedelta(0))
    rows, before, newest = table.read(), files(path), table.snapshots()
    for identifier in (0, 2, 1, 2):
        assert commit(path, "me", identifier) == newest[0].id
    assert restarted.commit([message], identifier=2) == newest[0]
    assert files(path) == before
    assert table.snapshots() == newest
    assert table.read().equals(rows)
    assert commit(path, "me", 3) == newest[0].id + 1
    assert commit(path, "new", 0) == newest[0].id + 2


def test_an_abort_after_the_snapshot_has_expired_deletes_nothing(tmp_path: Path) -> None:
    """Who gives up is not who committed: Spark has a process for each."""
    path = new_table(tmp_path / "t")
    committed, lost = (PaimonTable.open(path).new_write() for _ in range(2))
    messages = []
    for number, write in enumerate((committed, lost)):
        task = write.task(0)
        task.write(pa.table({"p": [1], "id": [number], "v": [1]}))
        messages.append(task.finish())
    here, there = copy.deepcopy(committed), committed
    there.commit(messages[:1])
    table = PaimonTable.open(path)
    for value in range(3):
        table.append(pa.table({"p": [1], "id": [9], "v": [value]}))
    assert table.expire_snapshots(1, 1) == 3
    before = files(path)
    here.abort(messages[:1])
    assert files(path) == before
    lost.abort(messages[1:])
    assert len(before - files(path)) == 1
    assert table.check() == []
    assert table.read().num_rows == 2


def test_the_record_of_commits_has_a_bound(tmp_path: Path) -> None:
    path = new_table(tmp_path / "t")
    schema = PaimonTable.open(path).table_schema
    for number in range(MAX_USERS + 1):
        Committer(PaimonTable.open(path).metadata, schema, f"user-{number}").append([], identifier=7)
    newest = PaimonTable.open(path).snapshot()
    assert newest is not None
    known = [is_recorded(newest, f"user-{number}", "APPEND", 7) for number in range(MAX_USERS + 1)]
    assert known == [False] + [True] * MAX_USERS
    assert not is_recorded(newest, "user-1", "APPEND", 8)
    assert not is_recorded(newest, "user-1", "OVERWRITE", 7)
    for text in ("{", "[]", '{"APPEND me": null}', '{"APPEND me": "x"}'):
        with pytest.raises(CorruptFile, match=r"property paimon-py\.committed"):
            is_recorded(replace(newest, properties={COMMITTED: text}), "me", "APPEND", 1)


def test_writes_that_are_given_up_leave_nothing(tmp_path: Path, use: Use) -> None:
    path = new_table(tmp_path / "t")
    PaimonTable.open(path).append(pa.table({"p": [1, 2], "id": [1, 1], "v": [0, 0]}))
    before = files(path)
    chance = seeded("aborts")
    given_up = 0
    for _ in range(sized(100, 2000)):
        storage = FaultStorage()
        use(storage)
        write = PaimonTable.open(path).new_write(overwrite=chance.random() < 0.3)
        tasks = [write.task(number) for number in range(chance.randrange(1, 4))]
        for task in tasks:
            for _ in range(chance.randrange(1, 3)):
                task.write(pa.table({"p": [1, chance.randrange(5)], "id": [1, 2], "v": [3, 4]}))
        way = chance.choice(["task", "write", "commit"])
        if way == "task":
            for task in tasks:
                if chance.random() < 0.5:
                    task.finish()
                task.abort()
        else:
            messages = [task.finish() for task in tasks]
            if way == "commit":
                storage.at, storage.fault = len(storage.log) + chance.randrange(5), BEFORE
                try:
                    write.commit(messages)
                except PaimonError:
                    given_up += 1
                else:  # what failed was a hint, which nobody needs
                    before = files(path)
            write.abort(messages)
            write.abort(messages)
        assert files(path) == before, way
    use(LocalStorage())
    assert PaimonTable.open(path).check(all_snapshots=True) == []
    assert given_up
