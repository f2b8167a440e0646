"""HadoopStorage: one winner for each name whatever the NameNode answers, and errors that say what is missing."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import pytest

from paimon_spark.errors import CommitStateUnknown, StorageError
from paimon_spark.storage import hadoop, libhdfs
from paimon_spark.storage.hadoop import HadoopStorage
from paimon_spark.storage.locate import locate
from tests.metadata.made_up import added
from tests.processes import LONGEST_SECONDS
from tests.sizes import seeded, sized
from tests.storage.name_node import FaultyNameNode, LocalNameNode
from tests.storage.stores import elsewhere, place_of
from tests.storage.test_object_store import committed, new_table, referenced

STORAGE = HadoopStorage("hdfs://local")
SNAPSHOT = "hdfs://local/t/snapshot/snapshot-1"


@pytest.fixture
def name_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FaultyNameNode:
    """The NameNode of ``hdfs://local``."""
    name_node = FaultyNameNode(LocalNameNode(tmp_path))
    monkeypatch.setattr(hadoop, "connect", lambda host, user: name_node)
    return name_node


def names() -> list[str]:
    return sorted(file.name for file in STORAGE.list("hdfs://local/t/snapshot"))


# --------------------------------------------------------------------------- publication


@pytest.mark.parametrize("store", ["hdfs-local", "hdfs"])
def test_racing_threads_have_one_winner_for_each_name(store: str, request: pytest.FixtureRequest) -> None:
    storage, root = locate(*place_of(store, request))
    threads, ids = 8, sized(20, 200)
    barrier, won = threading.Barrier(threads, timeout=LONGEST_SECONDS), []

    def work(number: int) -> None:
        for id_ in range(ids):
            barrier.wait()
            if storage.put_if_absent(f"{root}/snapshot/snapshot-{id_}", b"%d" % number):
                won.append((id_, number))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(id_ for id_, _ in won) == list(range(ids))
    for id_, number in won:
        assert storage.read(f"{root}/snapshot/snapshot-{id_}") == b"%d" % number
    assert len(storage.list(f"{root}/snapshot")) == ids


def test_a_rename_whose_answer_was_lost_is_found_out(name_node: FaultyNameNode) -> None:
    name_node.faults = ["lost"]
    assert STORAGE.put_if_absent(SNAPSHOT, b"mine")
    assert STORAGE.read(SNAPSHOT) == b"mine"
    assert names() == ["snapshot-1"]


def test_a_rename_that_was_not_done_is_an_error(name_node: FaultyNameNode) -> None:
    name_node.faults = ["declined"]
    with pytest.raises(StorageError, match=r"cannot publish .*snapshot-1: the NameNode did not rename"):
        STORAGE.put_if_absent(SNAPSHOT, b"mine")
    assert names() == []


def test_a_race_that_is_lost_late_leaves_no_file(name_node: FaultyNameNode, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = name_node.rename

    def somebody_was_faster(old: str, new: str) -> bool:
        STORAGE.write(SNAPSHOT, b"other")
        return rename(old, new)

    monkeypatch.setattr(name_node, "rename", somebody_was_faster)
    assert not STORAGE.put_if_absent(SNAPSHOT, b"mine")
    assert STORAGE.read(SNAPSHOT) == b"other"
    assert names() == ["snapshot-1"]


def test_a_directory_is_not_moved_into(name_node: FaultyNameNode) -> None:
    STORAGE.write(f"{SNAPSHOT}/x", b"")
    with pytest.raises(StorageError, match="there is a directory of that name"):
        STORAGE.put_if_absent(SNAPSHOT, b"mine")


@pytest.mark.parametrize("store", ["hdfs-local", "hdfs"])
def test_ambiguous_commits_are_applied_exactly_once(
    store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(store, request)
    connect = hadoop.connect
    name_node = FaultyNameNode(connect(place[0].split("/")[2], None))
    monkeypatch.setattr(hadoop, "connect", lambda host, user: name_node)
    metadata, committer = new_table(*locate(*place))
    commits = sized(50, 1000)
    chance = seeded(f"ambiguous commits, {store}")
    for number in range(commits):
        name_node.faults = chance.choices(["lost", "declined", None], k=chance.randrange(1, 4))
        assert committer.append([added()], identifier=number).id == number + 1
    assert [s.commit_identifier for s in committed(metadata)] == list(range(commits))
    manifests = {file.name for file in metadata.storage.list(metadata.paths.manifest_directory)}
    assert manifests == {name for s in committed(metadata) for name in referenced(metadata, s)}


def test_a_name_node_that_declines_for_ever(name_node: FaultyNameNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    metadata, committer = new_table(*locate("hdfs://local/t", {}))
    committer.append([added()])
    name_node.faults = ["declined"] * 1000
    with pytest.raises((StorageError, CommitStateUnknown)):
        committer.append([added()])
    assert [s.id for s in committed(metadata)] == [1]


def test_a_name_node_that_is_gone_after_the_rename(name_node: FaultyNameNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    metadata, committer = new_table(*locate("hdfs://local/t", {}))
    name_node.faults = ["gone"]
    with pytest.raises(CommitStateUnknown):
        committer.append([added()])
    name_node.is_silent = False
    (snapshot,) = committed(metadata)
    assert metadata.manifests.of_snapshot(snapshot)


# --------------------------------------------------------------------------- what is missing


def test_a_name_node_that_does_not_answer_is_not_an_empty_one() -> None:
    elsewhere("hdfs")  # for its library
    storage, root = locate("hdfs://localhost:1/t", {})
    for ask in (storage.exists, storage.size, storage.list, storage.directories, storage.read, storage.open):
        with pytest.raises(StorageError, match=r"cannot (look up|list)"):
            ask(root)


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, root = locate("hdfs://nobody:1/t", {})
    monkeypatch.delenv("CLASSPATH", raising=False)
    with pytest.raises(StorageError, match=r"CLASSPATH is not set.*JAVA_HOME.*ARROW_LIBHDFS_DIR.*hadoop classpath"):
        storage.exists(root)
    monkeypatch.setenv("CLASSPATH", str(tmp_path))
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", str(tmp_path))
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(StorageError, match=r"cannot reach hdfs://nobody:1: .*lib(jvm|hdfs).*ARROW_LIBHDFS_DIR"):
        storage.exists(root)


class _Library:
    """What ``_check_default`` asks of libhdfs."""

    def __init__(self, default: bytes) -> None:
        self.text = ctypes.create_string_buffer(default)

    def hdfsConfGetStr(self, key: bytes, value: object) -> int:  # noqa: N802
        assert key == b"fs.defaultFS"
        value._obj.value = ctypes.addressof(self.text)  # type: ignore[attr-defined]
        return 0

    def hdfsConfStrFree(self, value: object) -> None:  # noqa: N802
        """Nothing to free."""


def test_the_local_disk_is_not_taken_for_hdfs() -> None:
    libhdfs._check_default(_Library(b"hdfs://cluster"))
    with pytest.raises(StorageError, match=r"fs\.defaultFS is 'file:///': name the NameNode"):
        libhdfs._check_default(_Library(b"file:///"))
