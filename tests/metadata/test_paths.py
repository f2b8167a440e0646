"""TablePaths: where files are, and names that would lead elsewhere."""

from __future__ import annotations

import pytest

from paimon_spark.errors import CorruptFile, InvalidInput, InvalidOption
from paimon_spark.metadata.paths import SNAPSHOT_PREFIX, TablePaths, listed_id
from paimon_spark.options import Options

PATHS = TablePaths("/wh/db.db/t")


def test_files_of_a_table() -> None:
    assert PATHS.schema_file(0) == "/wh/db.db/t/schema/schema-0"
    assert PATHS.snapshot_file(12) == "/wh/db.db/t/snapshot/snapshot-12"
    assert PATHS.latest_hint == "/wh/db.db/t/snapshot/LATEST"
    assert PATHS.earliest_hint == "/wh/db.db/t/snapshot/EARLIEST"
    assert PATHS.tag_file("v1") == "/wh/db.db/t/tag/tag-v1"
    assert PATHS.manifest("manifest-list-x-0") == "/wh/db.db/t/manifest/manifest-list-x-0"
    assert PATHS.index_file("index-x-0") == "/wh/db.db/t/index/index-x-0"
    assert PATHS.index_file("index-x-0", "/wh/db.db/t/bucket-0") == "/wh/db.db/t/bucket-0/index-x-0"


@pytest.mark.parametrize(
    ("partition", "bucket", "options", "expected"),
    [
        ("", 0, {}, "bucket-0"),
        ("p=1/q=a", 3, {}, "p=1/q=a/bucket-3"),
        ("", -2, {}, "bucket-postpone"),
        ("p=1", 0, {"data-file.path-directory": "data/x"}, "data/x/p=1/bucket-0"),
        ("", 0, {"data-file.path-directory": "/data/"}, "data/bucket-0"),
    ],
)
def test_bucket_directories(partition: str, bucket: int, options: dict[str, str], expected: str) -> None:
    assert PATHS.bucket_directory(partition, bucket, Options(options)) == f"{PATHS.root}/{expected}"


def test_a_path_directory_outside_of_the_table_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"data-file\.path-directory"):
        PATHS.bucket_directory("", 0, Options({"data-file.path-directory": "../other"}))


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(CorruptFile, match="not a plain file name"):
        PATHS.manifest(name)
    with pytest.raises(CorruptFile, match="not a plain file name"):
        PATHS.index_file(name)
    with pytest.raises(InvalidInput, match="not a tag name"):
        PATHS.tag_file(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("snapshot-1", 1),
        ("snapshot-120", 120),
        ("LATEST", None),
        ("12", None),
        ("snapshot-", None),
        ("snapshot-01", None),
        ("snapshot--1", None),
        ("snapshot-1f3a.tmp", None),
        ("snapshot-²", None),
        (".snapshot-1.uuid.tmp", None),
        ("snapshot-" + "9" * 5000, None),
    ],
)
def test_listings_tolerate_foreign_names(name: str, expected: int | None) -> None:
    assert listed_id(name, SNAPSHOT_PREFIX) == expected
