"""Data files outside of the table's directory: read where the table declares it, refused everywhere else."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.check.table_check import check
from paimon_spark.errors import CorruptFile, UnsupportedFeature
from paimon_spark.metadata.external_path import external_file
from paimon_spark.options import Options
from paimon_spark.storage import hadoop
from paimon_spark.storage.locate import locate
from paimon_spark.table import PaimonTable
from tests.check.damage import Victim
from tests.storage.name_node import LocalNameNode
from tests.storage.object_server import ObjectServer

ROWS = pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]})


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    server = ObjectServer()
    yield server
    server.stop()


def declared(victim: Victim, directory: str) -> None:
    """Let the table declare an external path."""
    schema = victim.schema
    changed = dataclasses.replace(
        schema, id=schema.id + 1, options=schema.options.merged({"data-file.external-paths": directory})
    )
    assert victim.metadata.schemas.create(changed)
    victim.change_snapshot(schema_id=changed.id)


def test_a_local_file_at_a_declared_path_is_read(tmp_path: Path) -> None:
    path, far = tmp_path / "t", tmp_path / "far"
    PaimonTable.create(str(path), ROWS.schema, ["k"]).append(ROWS)
    victim = Victim(path)
    (entry,) = victim.entries
    far.mkdir()
    shutil.move(victim.path(entry), far / entry.file.name)
    victim.change_file(entry, external_path=f"file:{far}/{entry.file.name}")
    with pytest.raises(CorruptFile, match="outside of the table"):
        PaimonTable.open(str(path)).read()
    declared(victim, f"file://{far}")
    table = PaimonTable.open(str(path))
    assert table.read().to_pylist() == ROWS.to_pylist()
    assert table.check() == []


@pytest.mark.parametrize("far", ["s3://bucket/far", "s3://other/far"], ids=["one bucket", "another bucket"])
def test_an_object_at_a_declared_path_is_read(server: ObjectServer, far: str) -> None:
    path = "s3a://bucket/t"
    table = PaimonTable.create(path, ROWS.schema, ["k"], options=server.options)
    table.append(ROWS)
    victim = Victim.of(table)
    (entry,) = victim.entries
    key = next(key for key in server.objects if key.endswith(entry.file.name))
    external = f"{far}/{entry.file.name}"
    server.objects[external.removeprefix("s3://").removeprefix("bucket/")] = server.objects.pop(key)
    victim.change_file(entry, external_path=external)
    with pytest.raises(CorruptFile, match="outside of the table"):
        PaimonTable.open(path, server.options).read()
    declared(victim, far)
    assert PaimonTable.open(path, server.options).read().to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/far/x", "/far/x"),
        ("file:/far/b/x", "/far/b/x"),
        ("file:///t/bucket-0/x", "/t/bucket-0/x"),
    ],
)
def test_places_below_the_table_and_the_declared_paths(path: str, found: str) -> None:
    assert external_file(path, "/t", Options({"data-file.external-paths": "file:///far/"})) == found


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/etc/passwd",
            "/farther/x",
            "/far",
            "/far/",
            "/far/../etc/x",
            "/far/./x",
            "/far//x",
            "/far/a\\b",
            "/far/a\0b",
        ),
        *(
            "/far/a\\b",
            "/far/a\0b",
            "far/x",
            "",
            "file:far/x",
            "file://host/far/x",
            "s3://far/x",
            "s3://bucket/x",
            "hdfs:///far/x",
        ),
    ],
)
def test_places_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(CorruptFile, match="outside"):
        external_file(path, "/t", Options({"data-file.external-paths": "file:///far"}))


def test_buckets_count_and_schemes_of_s3_are_one() -> None:
    options = Options({"data-file.external-paths": "s3://b/far,s3a://c/far"})
    assert external_file("s3n://b/far/x", "s3a://b/t", options) == "s3a://b/far/x"
    assert external_file("s3://c/far/x", "s3a://b/t", options) == "s3a://c/far/x"
    for path in ("s3://d/far/x", "s3://b/farther/x", "s3://b/u/x", "gs://b/far/x", "/b/far/x"):
        with pytest.raises(CorruptFile, match="outside"):
            external_file(path, "s3a://b/t", options)


def test_paths_are_spelled_as_the_storage_that_reads_them_does() -> None:
    options = Options({"data-file.external-paths": "s3a://b/far,file:///far,abfs://c@a.dfs.x.y/far,hdfs://n:1/far"})
    for path, root, found in (
        ("s3://b/far/x", "/t", "s3a://b/far/x"),
        ("file:/far/x", "s3://b/t", "/far/x"),
        ("abfss://c@a.dfs.x.y/far/x", "abfss://d@a.dfs.x.y/t", "abfs://c@a.dfs.x.y/far/x"),
        ("hdfs://n:1/far/x", "hdfs://m:1/t", "hdfs://n:1/far/x"),
    ):
        assert external_file(path, root, options) == found


def test_a_storage_that_is_not_read_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeature, match="'oss' is not supported"):
        external_file("oss://b/far/x", "/t", Options({"data-file.external-paths": "oss://b/far"}))


@pytest.mark.parametrize("home", ["local", "object", "hdfs"])
def test_files_in_another_kind_of_storage_are_read(
    home: str, server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_node = LocalNameNode(tmp_path / "hdfs")
    monkeypatch.setattr(hadoop, "connect", lambda host, user: name_node)
    places = {"local": str(tmp_path), "object": "s3://bucket", "hdfs": "hdfs://local"}
    path, options = f"{places.pop(home)}/t", server.options
    table = PaimonTable.create(path, ROWS.schema, ["k"], options=options)
    files = []
    for first in (0, 10):
        table.append(pa.table({"k": [first + 1, first + 2], "v": ["x", "y"]}))
    rows = table.read().sort_by("k")
    victim = Victim.of(table)
    for entry, place in zip(victim.entries, places.values(), strict=True):
        near = f"{table.path}/bucket-0/{entry.file.name}"
        storage, far = locate(f"{place}/far/{entry.file.name}", options)
        storage.write(far, table.metadata.storage.read(near))
        table.metadata.storage.delete(near)
        victim.change_file(entry, external_path=far)
        files.append(far)
    declared(victim, ",".join(f"{place}/far" for place in places.values()))
    again = pickle.loads(pickle.dumps(PaimonTable.open(path, options)))
    assert again.read().sort_by("k").equals(rows)
    assert again.check() == check(path, options) == []
    storage, lost = locate(files[1], options)
    storage.delete(lost)
    assert [breach.kind.name for breach in check(path, options)] == ["MISSING"]
