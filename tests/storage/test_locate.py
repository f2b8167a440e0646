"""locate: which storage a path belongs to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paimon_spark.errors import InvalidInput, InvalidOption, UnsupportedFeature
from paimon_spark.storage.hadoop import HadoopStorage
from paimon_spark.storage.local import LocalStorage
from paimon_spark.storage.locate import locate
from paimon_spark.storage.object_store import ObjectStorage


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/wh/t", "/wh/t"),
        ("/wh//t/", "/wh/t"),
        ("file:/wh/t", "/wh/t"),
        ("file:///wh/t/", "/wh/t"),
        ("file://localhost/wh/t", "/wh/t"),
        ("FILE:///wh/t", "/wh/t"),
        ("file:///wh/a b/c%20d", "/wh/a b/c%20d"),
        ("/wh/dt=a:b", "/wh/dt=a:b"),
    ],
)
def test_local_paths(path: str, expected: str) -> None:
    assert locate(path, {}) == (LocalStorage(), expected)


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate("t", {})[1] == os.path.join(os.getcwd(), "t")


@pytest.mark.parametrize("path", ["oss://b/t", "http://host/t", "viewfs://c/t"])
def test_other_schemes_are_refused_by_name(path: str) -> None:
    with pytest.raises(UnsupportedFeature, match=path.split(":")[0]):
        locate(path, {})


@pytest.mark.parametrize(
    ("path", "kind", "bucket", "container", "root"),
    [
        ("s3://b/wh/t", "s3", "s3://b", "b", "s3://b/wh/t"),
        ("S3A://b//wh/t/", "s3", "s3a://b", "b", "s3a://b/wh/t"),
        ("gs://b/t%20", "gs", "gs://b", "b", "gs://b/t%20"),
        (
            "abfss://c@Acc.dfs.core.windows.net/t",
            "azure",
            "abfss://c@Acc.dfs.core.windows.net",
            "c",
            "abfss://c@Acc.dfs.core.windows.net/t",
        ),
    ],
)
def test_object_stores(path: str, kind: str, bucket: str, container: str, root: str) -> None:
    storage, found = locate(path, {})
    assert isinstance(storage, ObjectStorage)
    assert (storage.kind, storage.bucket, storage.container, found) == (kind, bucket, container, root)
    assert storage.config.get("account_name") == ("acc" if kind == "azure" else None)


@pytest.mark.parametrize(
    "path", ["s3://", "s3:///t", "s3://b", "s3://b/", "s3://b/../t", "abfss://c/t", "abfs://c@a/t"]
)
def test_object_paths_that_name_no_table(path: str) -> None:
    with pytest.raises(InvalidInput, match="is expected"):
        locate(path, {})


@pytest.mark.parametrize(
    ("path", "root", "found"),
    [
        ("hdfs://nn:8020/wh/t", "hdfs://nn:8020", "hdfs://nn:8020/wh/t"),
        ("HDFS://me@cluster//wh/t%20/", "hdfs://me@cluster", "hdfs://me@cluster/wh/t%20"),
        ("hdfs:///wh/t", "hdfs://", "hdfs:///wh/t"),
        ("hdfs:/wh/t", "hdfs://", "hdfs:///wh/t"),
    ],
)
def test_hdfs(path: str, root: str, found: str) -> None:
    assert locate(path, {"s3.access-key": "not for HDFS"}) == (HadoopStorage(root), found)


@pytest.mark.parametrize("path", ["hdfs://nn:8020", "hdfs:///", "hdfs://nn/../t", "hdfs://nn:port/t", "hdfs://@nn/t"])
def test_hdfs_paths_that_name_no_table(path: str) -> None:
    with pytest.raises(InvalidInput, match="is expected"):
        locate(path, {})


def test_commit_unsafe_is_true_or_false() -> None:
    assert locate("s3://b/t", {"commit.unsafe": "TRUE"})[0] != locate("s3://b/t", {})[0]
    with pytest.raises(InvalidOption, match=r"commit\.unsafe"):
        locate("s3://b/t", {"commit.unsafe": "yes"})


def test_files_of_another_host_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match=r"other\.host"):
        locate("file://other.host/t", {})


@pytest.mark.parametrize("path", ["", "  ", "file:", "file://"])
def test_an_empty_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match="names no file"):
        locate(path, {})
