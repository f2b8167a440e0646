"""Time travel: which snapshot each scan option selects, and what it says when there is none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_spark.errors import InvalidOption, NotFound, UnsupportedFeature
from paimon_spark.metadata.paths import TablePaths
from paimon_spark.metadata.snapshot import SnapshotStore
from paimon_spark.metadata.time_travel import is_time_travel, parse_timestamp, travel
from paimon_spark.options import Options
from paimon_spark.storage.local import LocalStorage
from tests.metadata.test_snapshot import SNAPSHOT

NOON = 1_706_702_400_000  # 2024-01-31T12:00:00Z


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    """Snapshots 2, 3 and 4, of noon and each a second later, with watermarks 10, 20, 30; tags of 1 and 3."""
    store = SnapshotStore(LocalStorage(), TablePaths(str(tmp_path)))
    tags = tmp_path / "tag"
    tags.mkdir()
    for id_ in (2, 3, 4):
        store.publish(replace(SNAPSHOT, id=id_, time_millis=NOON + (id_ - 2) * 1000, watermark=(id_ - 1) * 10))
    (tags / "tag-old").write_bytes(replace(SNAPSHOT, id=1).serialize())
    (tags / "tag-4").write_bytes(store.get(3).serialize())
    return store


@pytest.fixture
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_utc")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 4),
        ({"scan.mode": "default"}, 4),
        ({"scan.mode": "latest-full"}, 4),
        ({"scan.mode": "latest"}, 4),
        ({"scan.mode": "full"}, 4),
        ({"scan.snapshot-id": "2"}, 2),
        ({"scan.timestamp-millis": str(NOON)}, 2),
        ({"scan.timestamp-millis": str(NOON + 1999)}, 3),
        ({"scan.timestamp": "2024-01-31 12:00:01"}, 3),
        ({"scan.timestamp": "2024-01-31T14:00:00.999+02:00"}, 2),
        ({"scan.timestamp": "2024-02-01"}, 4),
        ({"scan.tag-name": "old"}, 1),
        ({"scan.tag-name": "4"}, 3),
        ({"scan.version": "old"}, 1),
        ({"scan.version": "4"}, 3),
        ({"scan.version": "2"}, 2),
        ({"scan.version": "watermark-15"}, 3),
        ({"scan.version": "watermark-20"}, 3),
    ],
)
def test_options_select_snapshots(store: SnapshotStore, options: dict[str, str], expected: int) -> None:
    snapshot = travel(store, Options(options))
    assert snapshot is not None
    assert snapshot.id == expected
    assert is_time_travel(Options(options)) == (bool(options) and "scan.mode" not in options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.snapshot-id": "1"}, "snapshot 1 .* the earliest is 2"),
        ({"scan.snapshot-id": "5"}, "snapshot 5 .* the latest 4"),
        ({"scan.timestamp-millis": str(NOON - 1)}, f"its earliest, 2, is of {NOON} ms"),
        ({"scan.tag-name": "new"}, "tag 'new' .* the tags are: 4, old"),
        ({"scan.version": "new"}, r"'scan\.version' = 'new' is no tag .*tags: 4, old"),
        ({"scan.version": "9"}, "snapshot 9"),
        ({"scan.version": "watermark-31"}, "watermark of at least 31"),
    ],
)
def test_what_does_not_exist_is_not_found(store: SnapshotStore, options: dict[str, str], message: str) -> None:
    with pytest.raises(NotFound, match=message):
        travel(store, Options(options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.snapshot-id": "2", "scan.tag-name": "old"}, r"'scan\.snapshot-id', 'scan\.tag-name'"),
        ({"scan.timestamp": "x", "scan.timestamp-millis": "1"}, "give one of them"),
        ({"scan.snapshot-id": "two"}, r"'scan\.snapshot-id' = 'two': a whole number"),
        ({"scan.timestamp": "yesterday"}, "'yesterday': a time such as"),
        ({"scan.timestamp": "2024-13-01"}, "month"),
        ({"scan.mode": "latest-full", "scan.snapshot-id": "2"}, r"'scan\.snapshot-id' selects another"),
    ],
)
def test_contradictions_are_refused(store: SnapshotStore, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        travel(store, Options(options))


@pytest.mark.parametrize(
    "options",
    [
        {"scan.mode": "from-timestamp", "scan.timestamp-millis": "1"},
        {"scan.mode": "incremental"},
        {"scan.mode": "compacted-full"},
        {"incremental-between": "1,2"},
        {"scan.watermark": "5"},
        {"scan.file-creation-time-millis": "5"},
    ],
)
def test_other_reads_are_refused_by_name(store: SnapshotStore, options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedFeature, match=next(iter(options))):
        travel(store, Options(options))


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    empty = SnapshotStore(LocalStorage(), TablePaths(str(tmp_path)))
    assert travel(empty, Options()) is None
    with pytest.raises(NotFound, match="the table has no snapshots"):
        travel(empty, Options({"scan.snapshot-id": "1"}))
    with pytest.raises(NotFound, match="it has none"):
        travel(empty, Options({"scan.timestamp-millis": "1"}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31", NOON - 20 * 3_600_000),
        ("2024-01-31 12:00", NOON - 8 * 3_600_000),
        (" 2024-1-31 12:00:00.5 ", NOON - 8 * 3_600_000 + 500),
        ("2024-01-31T12:00:00.123456789", NOON - 8 * 3_600_000 + 123),
        ("2024-01-31T12:00:00Z", NOON),
        ("2024-01-31 12:00:00-0130", NOON + 5_400_000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_times_are_local_unless_they_say_otherwise(monkeypatch: pytest.MonkeyPatch, text: str, expected: int) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert parse_timestamp(text) == expected
    finally:
        monkeypatch.undo()
        time.tzset()
