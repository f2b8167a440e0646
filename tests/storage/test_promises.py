"""The promises of a storage, kept by every kind of store; and commits of many processes on those that are elsewhere."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark import PaimonTable
from paimon_spark.errors import CorruptFile, NotFound, StorageError
from paimon_spark.storage.locate import locate
from paimon_spark.storage.storage import Storage
from tests.processes import exit_codes, fork_server
from tests.sizes import sized
from tests.storage.stores import ELSEWHERE, STARTED_HERE, Place, place_of

NAMES = ("plain", "dt=a%3Ab", "with blank", "q'é=~#?*+&", "a" * 200)


@pytest.fixture(params=[*STARTED_HERE, *ELSEWHERE])
def place(request: pytest.FixtureRequest) -> Place:
    """An empty directory of every kind of store."""
    return place_of(request.param, request)


@pytest.fixture
def located(place: Place) -> tuple[Storage, str]:
    """A storage and a directory of it that no other test uses."""
    return locate(*place)


def test_whole_files(located: tuple[Storage, str]) -> None:
    storage, root = located
    for name in NAMES:
        path = f"{root}/dir/{name}/file"
        with pytest.raises(NotFound, match="file does not exist"):
            storage.read(path)
        assert not storage.exists(path)
        storage.write(path, b"abc")
        assert storage.read(path) == storage.read(path, limit=3) == b"abc"
        assert storage.size(path) == 3
        assert storage.exists(path)
        with pytest.raises(CorruptFile, match="3 bytes long, at most 2"):
            storage.read(path, limit=2)
        storage.replace(path, b"")
        assert storage.read(path) == b""
        storage.delete(path)
        storage.delete(path)
        assert not storage.exists(path)


def test_listings(located: tuple[Storage, str]) -> None:
    storage, root = located
    assert storage.list(root) == []
    assert storage.directories(root) == []
    storage.write(f"{root}/one", b"12345")
    storage.write(f"{root}/.hidden/x", b"")
    for name in NAMES:
        storage.write(f"{root}/{name}/two", b"")
    (file,) = storage.list(root)
    assert (file.name, file.size) == ("one", 5)
    assert file.modified_millis > 1_700_000_000_000
    assert sorted(storage.directories(root)) == sorted(NAMES)


def test_put_if_absent_keeps_the_first_content(located: tuple[Storage, str]) -> None:
    storage, root = located
    path = f"{root}/snapshot/snapshot-1"
    assert storage.put_if_absent(path, b"first")
    assert not storage.put_if_absent(path, b"second")
    assert storage.read(path) == b"first"
    assert [file.name for file in storage.list(f"{root}/snapshot")] == ["snapshot-1"]


def test_parquet_streams_through_create_and_open(located: tuple[Storage, str]) -> None:
    storage, root = located
    rows = np.random.default_rng(0).integers(0, 1 << 40, 200_000)
    table = pa.table({"a": rows, "b": rows.astype(str)})
    path = f"{root}/x.parquet"
    stream = storage.create(path)
    with pq.ParquetWriter(pa.PythonFile(stream, mode="w"), table.schema) as writer:
        for start in range(0, len(rows), 50_000):
            writer.write_table(table.slice(start, 50_000))
    size = stream.tell()
    stream.close()
    stream.close()
    assert storage.size(path) == size
    with storage.open(path) as file:
        assert file.size() == size
        assert pq.read_table(file).equals(table)
    with pytest.raises(NotFound):
        storage.open(f"{root}/missing")


def test_storages_are_picklable(located: tuple[Storage, str]) -> None:
    storage, root = located
    storage.write(f"{root}/x", b"1")
    copy = pickle.loads(pickle.dumps(storage))
    assert copy == storage
    assert copy.read(f"{root}/x") == b"1"


def test_paths_elsewhere_are_refused(located: tuple[Storage, str]) -> None:
    storage, root = located
    for path in ("/etc/passwd", f"{root}/../../x", "s3://other/x", "hdfs://other/x"):
        with pytest.raises(StorageError, match="is not in"):
            storage.read(path)


# --------------------------------------------------------------------------- tables

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("a", pa.int64()), ("b", pa.string())])


def test_a_table(place: Place) -> None:
    path, options = place
    definition = {"merge-engine": "partial-update", "bucket": "2", "deletion-vectors.enabled": "true"}
    table = PaimonTable.create(path, SCHEMA, ["day", "id"], ["day"], {**options, **definition})
    table.append(pa.table({"day": ["a:b", "c/d"], "id": [1, 2], "a": [10, 20]}))
    again = PaimonTable.open(path + "/", options)
    again.compact()
    again.append(pa.table({"day": ["a:b"], "id": [1], "b": ["x"]}))
    again.compact()
    rows = sorted(again.read().to_pylist(), key=lambda row: row["id"])
    assert [tuple(row.values()) for row in rows] == [("a:b", 1, 10, "x"), ("c/d", 2, 20, None)]
    assert again.read(columns=["b"], filters=[("day", "=", "a:b")]).to_pylist() == [{"b": "x"}]
    assert again.check() == []
    again.metadata.storage.write(f"{again.path}/day=a%3Ab/bucket-0/data-orphan", b"")
    assert again.remove_orphan_files() == []
    assert again.read(options={"scan.snapshot-id": "1"}).num_rows == 2


def _commits(place: Place, user: int, commits: int) -> None:
    path, options = place
    for number in range(commits):
        rows = pa.table({"day": ["d"], "id": [user * 1000 + number], "a": [number]})
        PaimonTable.open(path, options).append(rows)


@pytest.mark.parametrize("store", ELSEWHERE)
def test_commits_of_eight_processes(store: str, request: pytest.FixtureRequest) -> None:
    place = place_of(store, request)
    processes, commits = 8, sized(10, 25)
    path, options = place
    PaimonTable.create(path, SCHEMA, ["id"], options={**options, "bucket": "1", "write-only": "true"})
    context = fork_server()
    workers = [context.Process(target=_commits, args=(place, user, commits)) for user in range(processes)]
    for worker in workers:
        worker.start()
    assert exit_codes(workers) == [0] * processes
    table = PaimonTable.open(path, options)
    assert [snapshot.id for snapshot in table.snapshots()] == list(range(1, processes * commits + 1))
    found = sorted(table.read(columns=["id"]).column("id").to_pylist())
    assert found == [user * 1000 + number for user in range(processes) for number in range(commits)]
    storage, root = locate(path, options)
    assert not [file.name for file in storage.list(f"{root}/snapshot") if file.name.endswith(".tmp")]
