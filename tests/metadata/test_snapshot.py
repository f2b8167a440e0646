"""Snapshot and SnapshotStore, against the snapshot files that Java wrote and against hints that lie."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import CorruptFile, InvalidInput, NotFound
from paimon_spark.metadata import snapshot as snapshot_module
from paimon_spark.metadata.paths import TablePaths
from paimon_spark.metadata.snapshot import APPEND, Snapshot, SnapshotStore
from paimon_spark.storage.local import LocalStorage
from tests.archives import unpack
from tests.metadata.tables import table_directories

FIXTURES = Path(__file__).parent.parent / "data" / "fixtures"
SNAPSHOT = Snapshot(
    id=1,
    schema_id=0,
    base_manifest_list="manifest-list-a-0",
    delta_manifest_list="manifest-list-a-1",
    commit_user="u",
    commit_identifier=2**63 - 1,
    commit_kind=APPEND,
    time_millis=1000,
    total_record_count=3,
    delta_record_count=3,
)
MINIMAL = {
    "version",
    "id",
    "schemaId",
    "baseManifestList",
    "deltaManifestList",
    "commitUser",
    "commitIdentifier",
    "commitKind",
    "timeMillis",
    "totalRecordCount",
    "deltaRecordCount",
}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "_READ_PAUSE_SECONDS", 0)


def _store(root: Path) -> SnapshotStore:
    return SnapshotStore(LocalStorage(), TablePaths(str(root)))


def _filled(root: Path, *ids: int) -> SnapshotStore:
    store = _store(root)
    for id_ in ids:
        assert store.publish(replace(SNAPSHOT, id=id_, time_millis=id_ * 1000))
    return store


def _parse(**changes: Any) -> Snapshot:
    json_ = {**json.loads(SNAPSHOT.serialize()), **changes}
    return Snapshot.parse(json.dumps({k: v for k, v in json_.items() if v is not ...}).encode(), "snapshot-1")


def test_golden_snapshots_survive_a_round_trip(golden: Path) -> None:
    files = sorted(golden.rglob("snapshot/snapshot-*"))
    assert len(files) > 150
    for file in files:
        written = json.loads(file.read_bytes())
        for dropped in ("logOffsets", "watermark"):
            if written.get(dropped) in ({}, -(2**63)):
                del written[dropped]
        expected = {key: value for key, value in written.items() if value is not None}
        assert json.loads(Snapshot.parse(file.read_bytes(), str(file)).serialize()) == expected, file


def test_stores_find_the_golden_snapshots(golden: Path) -> None:
    for table in table_directories(golden):
        if not (table / "snapshot").exists():
            continue
        store = _store(table)
        listed = sorted(int(p.name.removeprefix("snapshot-")) for p in (table / "snapshot").glob("snapshot-*"))
        latest = store.latest()
        assert store.ids() == listed
        assert latest is not None
        assert (store.earliest_id(), latest.id) == (listed[0], listed[-1])


def test_tags_of_a_table_written_by_java(tmp_path: Path) -> None:
    unpack(FIXTURES / "java09-warehouse.tar.gz", tmp_path)
    store = _store(next(tmp_path.rglob("db1.db/dyn")))
    assert store.tags() == ["t1", "t2"]
    assert store.tag("t1").id == 1
    assert store.has_tag("t2")
    with pytest.raises(NotFound, match=r"tag 'nope' .* the tags are: t1, t2"):
        store.tag("nope")
    with pytest.raises(InvalidInput, match="not a tag name"):
        store.tag("../snapshot/snapshot-1")


def test_a_minimal_snapshot_has_the_keys_every_reader_needs_and_no_nulls() -> None:
    assert set(json.loads(SNAPSHOT.serialize())) == MINIMAL
    full = replace(
        SNAPSHOT, base_manifest_list_size=10, delta_manifest_list_size=11, next_row_id=0, properties={"a": "b"}
    )
    assert set(json.loads(full.serialize())) == MINIMAL | {
        "baseManifestListSize",
        "deltaManifestListSize",
        "nextRowId",
        "properties",
    }
    assert Snapshot.parse(full.serialize(), "x") == full


def test_parsing_is_tolerant_of_what_may_be_absent_or_new() -> None:
    snapshot = _parse(version=..., commitIdentifier=..., totalRecordCount=None, watermark=-(2**63), newKey={"a": [1]})
    assert (snapshot.version, snapshot.commit_identifier, snapshot.total_record_count) == (1, 0, None)
    assert snapshot.watermark is None
    assert _parse(watermark=5).watermark == 5


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        *(({key: ...}, f"'{key}' is missing") for key in ("id", "schemaId", "baseManifestList", "deltaManifestList")),
        *(({key: ...}, f"'{key}' is missing") for key in ("commitUser", "commitKind", "timeMillis")),
        ({"id": "1"}, "'id': a 64-bit integer"),
        ({"id": 1.5}, "'id': a 64-bit integer"),
        ({"commitUser": 7}, "'commitUser': a string"),
        ({"commitKind": "MERGE"}, "'MERGE' is none of ANALYZE, APPEND, COMPACT, OVERWRITE"),
        ({"baseManifestListSize": "9"}, "'baseManifestListSize'"),
        ({"properties": "x"}, "'properties'"),
        ({"indexManifest": 3}, "'indexManifest'"),
    ],
)
def test_a_damaged_snapshot_is_corrupt(changes: dict[str, Any], detail: str) -> None:
    with pytest.raises(CorruptFile, match=f"snapshot-1.*{detail}"):
        _parse(**changes)


def test_an_empty_table_has_no_snapshots(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.latest() is None
    assert store.latest_id() is None
    assert store.earliest_id() is None
    assert store.ids() == []
    assert store.tags() == []
    assert store.at_or_before(10**15) is None
    with pytest.raises(NotFound, match="the table has no snapshots"):
        store.get(1)


@pytest.mark.parametrize(
    "hint", [None, b"2", b"1", b"3", b"4", b"99", b"", b"0", b"-1", b"x", b"2\n", b"9" * 60, b"\xff"]
)
def test_hints_are_never_trusted_above_or_below_the_truth(tmp_path: Path, hint: bytes | None) -> None:
    store = _filled(tmp_path, 2, 3)
    if hint is not None:
        (tmp_path / "snapshot" / "LATEST").write_bytes(hint)
        (tmp_path / "snapshot" / "EARLIEST").write_bytes(hint)
    assert store.latest_id() == 3
    assert store.earliest_id() == (3 if hint == b"3" else 2)


def test_a_good_hint_saves_the_listing(tmp_path: Path) -> None:
    store = _filled(tmp_path, 1, 2)
    store.write_latest_hint(2)
    assert (tmp_path / "snapshot" / "LATEST").read_bytes() == b"2"
    (tmp_path / "snapshot" / "snapshot-9").write_bytes(b"")  # only a listing would see it
    assert store.latest_id() == 2


def test_a_hint_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "snapshot").write_bytes(b"a file where the directory should be")
    _store(tmp_path).write_latest_hint(1)


def test_foreign_names_are_not_snapshots(tmp_path: Path) -> None:
    store = _filled(tmp_path, 1)
    for name in ("snapshot-1f3a.tmp", ".snapshot-2.u.tmp", "snapshot-", "notes"):
        (tmp_path / "snapshot" / name).write_text("")
    (tmp_path / "snapshot" / "snapshot-7").mkdir()
    assert store.ids() == [1]


def test_publish_never_overwrites(tmp_path: Path) -> None:
    store = _filled(tmp_path, 1)
    assert not store.publish(replace(SNAPSHOT, commit_user="other"))
    assert store.get(1).commit_user == "u"


def test_an_expired_snapshot_says_what_is_left(tmp_path: Path) -> None:
    store = _filled(tmp_path, 4, 5)
    with pytest.raises(NotFound, match=r"snapshot 2 .* has expired; the earliest is 4, the latest 5.* tag it"):
        store.get(2)
    with pytest.raises(NotFound, match=r"snapshot 6 .* does not exist; the earliest is 4, the latest 5"):
        store.get(6)


def test_a_snapshot_under_another_id_is_corrupt(tmp_path: Path) -> None:
    store = _filled(tmp_path, 1)
    (tmp_path / "snapshot" / "snapshot-2").write_bytes(SNAPSHOT.serialize())
    with pytest.raises(CorruptFile, match="snapshot-2: it holds snapshot 1"):
        store.get(2)


class _Torn(LocalStorage):
    """Storage of another engine's file system: a file's first reads see only its beginning."""

    def __init__(self, torn_reads: int) -> None:
        self.torn_reads = torn_reads

    def read(self, path: str, limit: int | None = None) -> bytes:
        data = super().read(path, limit)
        if self.torn_reads:
            self.torn_reads -= 1
            return data[:20]
        return data


def test_torn_reads_are_repeated_a_few_times(tmp_path: Path) -> None:
    _filled(tmp_path, 1)
    storage = _Torn(2)
    store = SnapshotStore(storage, TablePaths(str(tmp_path)))
    assert store.get(1).time_millis == 1000
    storage.torn_reads = 1000
    with pytest.raises(CorruptFile, match="not JSON"):
        store.get(1)
    assert storage.torn_reads > 900


@pytest.mark.parametrize(
    ("millis", "expected"), [(2999, None), (3000, 3), (4500, 4), (5000, 5), (7000, 7), (10**15, 7)]
)
def test_the_snapshot_at_or_before_a_time(tmp_path: Path, millis: int, expected: int | None) -> None:
    snapshot = _filled(tmp_path, 3, 4, 5, 6, 7).at_or_before(millis)
    assert (None if snapshot is None else snapshot.id) == expected


def test_equal_times_mean_the_newest(tmp_path: Path) -> None:
    store = _store(tmp_path)
    for id_ in (1, 2, 3):
        store.publish(replace(SNAPSHOT, id=id_, time_millis=50))
    found = store.at_or_before(50)
    assert found is not None
    assert found.id == 3


def test_snapshots_are_values() -> None:
    one = replace(SNAPSHOT, properties={"a": "b"})
    assert {one, replace(one), SNAPSHOT} == {one, SNAPSHOT}
    assert one != SNAPSHOT


def test_snapshots_and_stores_are_picklable(tmp_path: Path) -> None:
    store = _filled(tmp_path, 1)
    assert pickle.loads(pickle.dumps(store)).latest() == pickle.loads(pickle.dumps(store.get(1)))
