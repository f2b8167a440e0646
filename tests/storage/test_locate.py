"""locate: which storage a path belongs to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.storage.local import LocalStorage
from paimon_spark.storage.locate import locate


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


@pytest.mark.parametrize("path", ["s3://bucket/t", "hdfs:///t", "oss://b/t", "gs://b/t", "abfs://c@a/t"])
def test_other_schemes_are_refused_by_name(path: str) -> None:
    with pytest.raises(UnsupportedFeature, match=path.split(":")[0]):
        locate(path, {})


def test_files_of_another_host_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match=r"other\.host"):
        locate("file://other.host/t", {})


@pytest.mark.parametrize("path", ["", "  ", "file:", "file://"])
def test_an_empty_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match="names no file"):
        locate(path, {})
