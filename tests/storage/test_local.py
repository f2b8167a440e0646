"""LocalStorage: files are whole, durable and never overwritten by put_if_absent."""

from __future__ import annotations

import errno
import io
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import CorruptFile, NotFound, StorageError
from paimon_spark.storage import local
from paimon_spark.storage.local import LocalStorage
from tests.processes import exit_codes, fork_server

STORAGE = LocalStorage()


def test_write_makes_directories_and_read_returns_the_bytes(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b" / "file")
    STORAGE.write(path, b"abc")
    assert STORAGE.read(path) == b"abc"
    assert STORAGE.read(path, limit=3) == b"abc"
    assert STORAGE.size(path) == 3
    assert STORAGE.exists(path)
    assert not STORAGE.exists(str(tmp_path / "a"))


def test_write_refuses_an_existing_file_and_keeps_it(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    STORAGE.write(path, b"first")
    with pytest.raises(StorageError, match=path):
        STORAGE.write(path, b"second")
    assert STORAGE.read(path) == b"first"


def test_a_file_longer_than_the_limit_is_corrupt(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    STORAGE.write(path, b"abcd")
    with pytest.raises(CorruptFile, match="4 bytes long, at most 3"):
        STORAGE.read(path, limit=3)


@pytest.mark.parametrize("operation", ["read", "open", "size"])
def test_a_missing_file_is_not_found(tmp_path: Path, operation: str) -> None:
    with pytest.raises(NotFound, match="missing"):
        getattr(STORAGE, operation)(str(tmp_path / "missing"))


def test_failures_of_the_file_system_are_storage_errors(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=str(tmp_path)):
        STORAGE.read(str(tmp_path))
    with pytest.raises(StorageError, match=str(tmp_path)):
        STORAGE.delete(str(tmp_path))
    STORAGE.write(str(tmp_path / "file"), b"")
    with pytest.raises(StorageError, match="below"):
        STORAGE.write(str(tmp_path / "file" / "below"), b"")


def test_a_full_disk_is_a_storage_error() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    stream = local._NewFile.__new__(local._NewFile)
    super(local._NewFile, stream).__init__(io.FileIO("/dev/full", "w"))
    stream._path = "/dev/full"
    stream.write(b"data")
    with pytest.raises(StorageError, match="/dev/full"):
        stream.close()


def test_parquet_streams_through_create_and_open(tmp_path: Path) -> None:
    path = str(tmp_path / "dir" / "x.parquet")
    table = pa.table({"a": list(range(1000))})
    stream = STORAGE.create(path)
    with pq.ParquetWriter(stream, table.schema) as writer:
        writer.write_table(table)
    stream.close()
    stream.close()
    with STORAGE.open(path) as file:
        assert pq.read_table(file).equals(table)


def test_list_names_files_only(tmp_path: Path) -> None:
    assert STORAGE.list(str(tmp_path / "missing")) == []
    STORAGE.write(str(tmp_path / "one"), b"12345")
    STORAGE.write(str(tmp_path / "sub" / "two"), b"")
    (file,) = STORAGE.list(str(tmp_path))
    assert (file.name, file.size) == ("one", 5)
    assert file.modified_millis == os.stat(tmp_path / "one").st_mtime_ns // 1_000_000


def test_list_refuses_a_directory_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_LISTING", 2)
    for name in "abc":
        STORAGE.write(str(tmp_path / name), b"")
    with pytest.raises(StorageError, match="more than 2"):
        STORAGE.list(str(tmp_path))


def test_delete_accepts_a_missing_file(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    STORAGE.write(path, b"")
    STORAGE.delete(path)
    STORAGE.delete(path)
    assert not STORAGE.exists(path)


def test_replace_overwrites_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = str(tmp_path / "snapshot" / "LATEST")
    STORAGE.replace(path, b"1")
    STORAGE.replace(path, b"2")
    assert STORAGE.read(path) == b"2"
    assert os.listdir(tmp_path / "snapshot") == ["LATEST"]


def test_put_if_absent_keeps_the_first_content(tmp_path: Path) -> None:
    path = str(tmp_path / "snapshot" / "snapshot-1")
    assert STORAGE.put_if_absent(path, b"first")
    assert not STORAGE.put_if_absent(path, b"second")
    assert STORAGE.read(path) == b"first"
    assert os.listdir(tmp_path / "snapshot") == ["snapshot-1"]


def test_temporary_names_do_not_look_like_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    link = os.link

    def watch(source: str, target: str) -> None:
        seen.extend(os.listdir(tmp_path))
        link(source, target)

    monkeypatch.setattr(os, "link", watch)
    STORAGE.put_if_absent(str(tmp_path / "snapshot-1"), b"x")
    (name,) = seen
    assert name.startswith(".snapshot-1.")
    assert name.endswith(".tmp")


def test_an_error_after_the_link_counts_as_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def answer_lost(source: str, target: str) -> None:
        link(source, target)
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "link", answer_lost)
    path = str(tmp_path / "snapshot-1")
    assert STORAGE.put_if_absent(path, b"x")
    assert not STORAGE.put_if_absent(path, b"x")
    assert STORAGE.read(path) == b"x"


def test_an_error_before_the_link_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str, target: str) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(StorageError, match=r"cannot publish .*snapshot-1: input/output error"):
        STORAGE.put_if_absent(str(tmp_path / "snapshot-1"), b"x")
    assert os.listdir(tmp_path) == []


def test_a_directory_that_vanishes_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanish(source: str, target: str) -> None:
        os.unlink(source)
        os.rmdir(tmp_path / "snapshot")
        raise FileNotFoundError(errno.ENOENT, "no such file or directory")

    monkeypatch.setattr(os, "link", vanish)
    with pytest.raises(StorageError, match="cannot publish"):
        STORAGE.put_if_absent(str(tmp_path / "snapshot" / "snapshot-1"), b"x")


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: str, target: str) -> None:
        raise PermissionError(errno.EPERM, "operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(StorageError, match="no hard links"):
        STORAGE.put_if_absent(str(tmp_path / "snapshot-1"), b"x")
    assert os.listdir(tmp_path) == []


def _race(directory: str, racer: int, ids: int, barrier: object, wins: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    won = [i for i in range(ids) if STORAGE.put_if_absent(f"{directory}/snapshot-{i}", f"{racer}:{i}".encode() * 500)]
    wins.put((racer, won))  # type: ignore[attr-defined]


def test_racing_processes_have_one_winner_for_each_id(tmp_path: Path) -> None:
    context = fork_server()
    racers, ids = 8, 100
    barrier, wins = context.Barrier(racers), context.Queue()
    processes = [context.Process(target=_race, args=(str(tmp_path), r, ids, barrier, wins)) for r in range(racers)]
    for process in processes:
        process.start()
    assert exit_codes(processes) == [0] * racers
    won = dict(wins.get() for _ in range(racers))
    assert sorted(i for mine in won.values() for i in mine) == list(range(ids))
    for racer, mine in won.items():
        for i in mine:
            assert (tmp_path / f"snapshot-{i}").read_bytes() == f"{racer}:{i}".encode() * 500
    assert len(os.listdir(tmp_path)) == ids


def test_storages_are_picklable() -> None:
    assert pickle.loads(pickle.dumps(STORAGE)) == STORAGE


def test_directories_names_directories_only(tmp_path: Path) -> None:
    assert STORAGE.directories(str(tmp_path / "missing")) == []
    for name in ("p=1/bucket-0/file", "p=2/file", "file", ".hidden/file"):
        STORAGE.write(str(tmp_path / name), b"")
    (tmp_path / "link").symlink_to(tmp_path / "p=1")
    assert sorted(STORAGE.directories(str(tmp_path))) == ["p=1", "p=2"]
