"""Data files outside of the table's directory: read where the table declares it, refused everywhere else."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptFile, UnsupportedFeature
from paimon_spark.metadata.external_path import external_file
from paimon_spark.options import Options
from paimon_spark.table import PaimonTable
from tests.check.damage import Victim
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


@pytest.mark.parametrize(("root", "far"), [("/t", "s3://b/far"), ("s3://b/t", "file:///far"), ("/t", "hdfs://n/far")])
def test_another_kind_of_storage_is_refused_by_name(root: str, far: str) -> None:
    with pytest.raises(UnsupportedFeature, match="another kind of storage"):
        external_file(f"{far}/x", root, Options({"data-file.external-paths": far}))
