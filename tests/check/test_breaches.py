"""Every kind of breach, brought about by real damage, and named: that one, and no other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.check.breach import Breach, Kind
from paimon_spark.check.table_check import check_table
from paimon_spark.errors import NotFound
from paimon_spark.metadata.commit import MAX_SEQUENCE
from paimon_spark.metadata.data_file import COMPACT, Statistics
from paimon_spark.metadata.deletion_vector import DeletionVector, read_deletion_vector
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.snapshot import APPEND
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.metadata.vector_range import DeletionVectorRef
from paimon_spark.rows.binary_row import serialize
from paimon_spark.storage.local import LocalStorage
from paimon_spark.storage.storage import FileInfo
from paimon_spark.types import DataType, parse_type
from tests.check.damage import Victim, column

BIGINT = parse_type("BIGINT NOT NULL")
INT = parse_type("INT NOT NULL")


def row(value: int, type_: DataType = BIGINT) -> bytes:
    return serialize([pa.array([value], pa.int64() if type_ is BIGINT else pa.int32())], [type_])[0]


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    """A sound table of two level-0 files, with keys 0 to 9 and 5 to 14."""
    made = Victim.new(tmp_path / "t")
    made.append(range(10))
    made.append(range(5, 15))
    assert made.breaches(all_snapshots=True) == []
    return made


@pytest.fixture
def masked(golden: Path, tmp_path: Path) -> Victim:
    """A sound table that Java compacted: four levels, three of them with deletion vectors' help."""
    made = Victim.copy(golden / "java-2.0" / "dv_multi_file" / "warehouse" / "default.db" / "t", tmp_path / "t")
    assert made.breaches() == []
    return made


def the_only(breaches: list[Breach]) -> Breach:
    assert len(breaches) == 1, list(map(str, breaches))
    return breaches[0]


# --------------------------------------------------------------------------- files


def test_a_missing_data_file(victim: Victim) -> None:
    gone = victim.entries[1]
    victim.path(gone).unlink()
    assert the_only(victim.breaches()) == Breach(Kind.MISSING, victim.name(gone), "the file does not exist")
    assert victim.breaches(deep=False) == victim.breaches()
    assert victim.breaches(snapshot=1) == []


def test_a_truncated_data_file(victim: Victim) -> None:
    path = victim.path(victim.entries[0])
    path.write_bytes(path.read_bytes()[:-10])
    breach = the_only(victim.breaches())
    assert breach.kind is Kind.SIZE
    assert str(breach).startswith(f"size: {victim.name(victim.entries[0])}: it is ")


def test_a_data_file_of_other_bytes(victim: Victim) -> None:
    path = victim.path(victim.entries[0])
    path.write_bytes(bytes(path.stat().st_size))
    assert the_only(victim.breaches()).kind is Kind.CORRUPT
    assert victim.breaches(deep=False) == []


def test_a_wrong_row_count(victim: Victim) -> None:
    changed = victim.change_file(victim.entries[0], row_count=11)
    breach = the_only(victim.breaches())
    assert (breach.kind, breach.where) == (Kind.CORRUPT, victim.name(changed))
    assert "it has 10 rows, its metadata says 11" in breach.detail


@pytest.mark.parametrize("which", ["base_manifest_list", "delta_manifest_list"])
def test_missing_and_broken_lists(victim: Victim, which: str) -> None:
    path = Path(victim.metadata.paths.manifest(getattr(victim.snapshot, which)))
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert the_only(victim.breaches()).kind is Kind.CORRUPT
    path.unlink()
    assert the_only(victim.breaches()) == Breach(Kind.MISSING, f"manifest/{path.name}", "the file does not exist")


def test_a_missing_manifest_is_named_and_nothing_that_follows_from_it(victim: Victim) -> None:
    lost = victim.metadata.manifests.of_snapshot(victim.snapshot)[0]
    Path(victim.metadata.paths.manifest(lost.name)).unlink()
    assert the_only(victim.breaches()) == Breach(Kind.MISSING, f"manifest/{lost.name}", "the file does not exist")


def test_a_broken_snapshot(victim: Victim) -> None:
    Path(victim.metadata.paths.snapshot_file(2)).write_text("{}")
    assert the_only(victim.breaches()).kind is Kind.CORRUPT
    assert the_only(victim.breaches(all_snapshots=True)).where == "snapshot/snapshot-2"


def test_a_broken_schema(victim: Victim) -> None:
    victim.metadata.storage.write(victim.metadata.paths.schema_file(1), b"no json")
    assert the_only(victim.breaches()).where == "schema/schema-1"


def test_missing_index_files_and_statistics(masked: Victim) -> None:
    (index,) = masked.indexes
    Path(masked.metadata.paths.index_file(index.name)).unlink()
    masked.change_snapshot(statistics="stats-1")
    breaches = masked.breaches(deep=False)
    assert {b.where for b in breaches} == {f"index/{index.name}", "statistics/stats-1"}
    assert {b.kind for b in breaches} == {Kind.MISSING}


# --------------------------------------------------------------------------- counts and bounds


def test_wrong_totals(victim: Victim) -> None:
    victim.change_snapshot(total_record_count=21, delta_record_count=9)
    breaches = victim.breaches()
    assert {b.kind for b in breaches} == {Kind.COUNT}
    assert [b.detail for b in breaches] == [
        "totalRecordCount is 21, the files it lists have 20 rows",
        "deltaRecordCount is 9, the files it lists have 10 rows",
    ]


def test_a_wrong_delete_count(victim: Victim) -> None:
    victim.change_file(victim.entries[0], delete_row_count=2)
    assert the_only(victim.breaches()).detail == "it has 0 deletes, its metadata says 2"


def _wrong_listing(**values: Any) -> Callable[[ManifestFile], ManifestFile]:
    return lambda manifest: dataclasses.replace(manifest, **values)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"added": 1}, Kind.COUNT),
        ({"deleted": 1}, Kind.COUNT),
        ({"min_bucket": 1, "max_bucket": 1}, Kind.BOUNDS),
        ({"max_level": -1}, Kind.BOUNDS),
    ],
)
def test_a_list_that_describes_its_manifests_wrongly(victim: Victim, values: dict[str, int], kind: Kind) -> None:
    victim.list_files(victim.entries)
    victim.list_manifests(victim.metadata.manifests.of_snapshot(victim.snapshot), _wrong_listing(**values))
    breach = the_only(victim.breaches(deep=False))
    assert (breach.kind, breach.where) == (kind, f"manifest/{victim.snapshot.delta_manifest_list}")


def test_partition_bounds_of_a_list(tmp_path: Path) -> None:
    victim = Victim.new(tmp_path / "t", partitioned=True)
    for partition in (1, 2):
        victim.append([1], partition)
    victim.list_files(victim.entries)
    manifests = victim.metadata.manifests.of_snapshot(victim.snapshot)
    for low, high, sound in ((1, 2, True), (0, 3, True), (2, 2, False), (1, 1, False)):
        stats = Statistics(row(low, INT), row(high, INT), (0,))
        victim.list_manifests(manifests, _wrong_listing(partition_stats=stats))
        assert victim.kinds(deep=False) == (set() if sound else {Kind.BOUNDS})


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"min_key": row(1)}, "its keys are from [0] to [9], its metadata says [1] to [9]"),
        ({"max_key": row(10)}, "its keys are from [0] to [9], its metadata says [0] to [10]"),
        ({"min_key": row(1), "source": COMPACT}, "[1] to [9]"),
        ({"min_sequence": 1}, "its sequence numbers are (0, 9), its metadata says (1, 9)"),
    ],
)
def test_wrong_bounds_of_a_file(victim: Victim, values: dict[str, Any], shown: str) -> None:
    victim.change_file(victim.entries[0], **values)
    breach = the_only(victim.breaches())
    assert breach.kind is Kind.BOUNDS
    assert shown in breach.detail
    assert victim.breaches(deep=False) == []


def test_bounds_of_a_compacted_file_may_be_wide(victim: Victim) -> None:
    victim.change_file(victim.entries[0], max_key=row(11), source=COMPACT)
    assert victim.breaches() == []


def test_keys_the_wrong_way_round_and_keys_of_another_shape(victim: Victim) -> None:
    one, other = victim.entries
    victim.change_file(one, min_key=row(9), max_key=row(0))
    victim.change_file(other, min_key=b"nothing")
    breaches = victim.breaches(deep=False)
    assert {(b.kind, b.where) for b in breaches} == {
        (Kind.BOUNDS, victim.name(one)),
        (Kind.CORRUPT, victim.name(other)),
    }


def test_wrong_statistics_of_values(victim: Victim) -> None:
    file = victim.entries[0].file
    nulls = file.value_stats._replace(null_counts=(0, 0, 0, 3))
    victim.change_file(victim.entries[0], value_stats=nulls)
    assert the_only(victim.breaches()).detail == "column v has 0 nulls, its statistics say 3"
    others = victim.entries[1].file.value_stats
    victim.change_file(victim.entries[0], value_stats=others._replace(upper=file.value_stats.upper))
    assert victim.kinds() == {Kind.BOUNDS}


def test_a_sequence_number_above_the_recorded_one(victim: Victim) -> None:
    assert (victim.snapshot.properties or {})[MAX_SEQUENCE] == "19"
    victim.change_snapshot(properties={MAX_SEQUENCE: "18"})
    breach = the_only(victim.breaches(deep=False))
    assert (breach.kind, breach.where) == (Kind.SEQUENCE, victim.name(victim.entries[1]))


# --------------------------------------------------------------------------- entries, history, schemas, buckets


def test_entries_that_contradict_each_other(victim: Victim) -> None:
    one, other = victim.entries
    for entries, what in (
        ([one, other, other], "which is in the table already"),
        ([one, other, dataclasses.replace(one, file=one.file.at_level(3)).deleted()], "which is not in the table"),
        ([one, one.deleted(), one, other], "which was deleted before"),
    ):
        victim.list_files(entries)
        found = [b for b in victim.breaches(deep=False) if b.kind is Kind.ENTRY]
        assert what in the_only(found).detail


def test_a_file_at_two_levels(victim: Victim) -> None:
    one = victim.entries[0]
    victim.list_files([one, dataclasses.replace(one, file=one.file.at_level(3))])
    assert the_only(victim.breaches(deep=False)).detail == "it is at level 0 and at level 3"


def test_a_snapshot_that_does_not_follow_from_the_one_before(victim: Victim) -> None:
    victim.change_snapshot(time_millis=5)
    victim.list_files(victim.entries[:1])
    assert victim.breaches(deep=False) == []
    breaches = victim.breaches(all_snapshots=True, deep=False)
    assert [b.kind for b in breaches] == [Kind.HISTORY, Kind.HISTORY]
    assert "lacks 1 of the files of snapshot 1" in breaches[0].detail
    assert "before snapshot 1" in breaches[1].detail


def test_a_hole_in_the_history(victim: Victim) -> None:
    victim.append([99])
    Path(victim.metadata.paths.snapshot_file(2)).unlink()
    assert the_only(victim.breaches(all_snapshots=True)).where == "snapshot/snapshot-2"
    assert victim.breaches() == []
    with pytest.raises(NotFound, match="snapshot 2"):
        victim.breaches(snapshot=2)


@dataclasses.dataclass(frozen=True)
class Expiring(LocalStorage):
    """A storage in which the first snapshot expires as soon as somebody looks for data files."""

    path: Path = Path()
    gone: str = ""

    def list(self, directory: str) -> list[FileInfo]:
        if directory.endswith("/bucket-0"):
            (self.path / "snapshot" / "snapshot-1").unlink(missing_ok=True)
            (self.path / "snapshot" / "EARLIEST").write_text("2")
            for file in Path(directory).iterdir():
                if file.name == self.gone:
                    file.unlink()
        return super().list(directory)


def test_a_snapshot_that_expires_meanwhile_is_no_breach(tmp_path: Path) -> None:
    victim = Victim.new(tmp_path / "t")
    victim.append(range(10))
    (first,) = victim.entries
    victim.table.overwrite(victim.table.read())
    expiring = Expiring(tmp_path / "t", first.file.name)
    metadata = TableMetadata(expiring, victim.table.path)
    assert check_table(metadata, all_snapshots=True) == []
    assert not victim.path(first).exists()
    with pytest.raises(NotFound, match="snapshot 1"):
        check_table(metadata, snapshot=1)


def test_a_tag_of_an_expired_snapshot(victim: Victim) -> None:
    victim.metadata.storage.write(victim.metadata.paths.tag_file("first"), victim.metadata.snapshots.get(1).serialize())
    Path(victim.metadata.paths.snapshot_file(1)).unlink()
    assert victim.breaches(all_snapshots=True) == []
    victim.path(victim.entries[0]).unlink()
    assert victim.kinds(all_snapshots=True) == {Kind.MISSING}
    Path(victim.metadata.paths.snapshot_file(2)).unlink()
    assert the_only(victim.breaches(all_snapshots=True)).kind is Kind.MISSING


def test_schemas_that_do_not_exist(victim: Victim) -> None:
    changed = victim.change_file(victim.entries[0], schema_id=4)
    assert the_only(victim.breaches()) == Breach(Kind.SCHEMA, victim.name(changed), "its schema 4 does not exist")
    victim.change_file(changed, schema_id=0)
    victim.change_snapshot(schema_id=4)
    assert the_only(victim.breaches()) == Breach(Kind.SCHEMA, "snapshot 2", "its schema 4 does not exist")


def test_numbers_of_buckets(victim: Victim) -> None:
    one, other = victim.entries
    victim.list_files([one, dataclasses.replace(other, total_buckets=2)])
    assert the_only(victim.breaches(deep=False)).detail == "it is one of 2 buckets, other files of its partition of 1"
    victim.list_files([victim.move(one, bucket=3)])
    assert the_only(victim.breaches(deep=False)).detail == "it is in bucket 3 of 1 buckets"


def test_files_of_a_level_that_overlap(victim: Victim) -> None:
    one, other = victim.entries
    for level, sound in ((0, True), (1, False)):
        victim.list_files([dataclasses.replace(e, file=e.file.at_level(level)) for e in (one, other)])
        assert victim.kinds(deep=False) == (set() if sound else {Kind.OVERLAP})
    assert victim.breaches()[0].detail == f"it shares keys with {other.file.name} at level 1"


# --------------------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ("order", "what"),
    [([0, 2, 1, *range(3, 10)], "row 2 is below that of row 1"), ([0, 0, *range(2, 10)], "row 1 equals")],
)
@pytest.mark.parametrize("batch_rows", ["1024", "2"])
def test_keys_that_do_not_ascend(tmp_path: Path, order: list[int], what: str, batch_rows: str) -> None:
    victim = Victim.new(tmp_path / "t", read__batch_size=batch_rows)
    victim.append(range(10))
    victim.rewrite(victim.entries[0], lambda rows: rows.take(order))
    found = [b for b in victim.breaches() if b.kind is Kind.ORDER]
    assert what in the_only(found).detail


def test_key_copies_that_differ(victim: Victim) -> None:
    victim.rewrite(victim.entries[0], lambda rows: column(rows, "_KEY_k", [0, 1, 2, 3, 3, 5, 6, 7, 8, 9]))
    assert the_only(victim.breaches()) == Breach(
        Kind.KEY_COPY, victim.name(victim.entries[0]), "_KEY_k differs from k in row 4"
    )


def test_a_null_where_none_may_be(victim: Victim) -> None:
    victim.rewrite(victim.entries[0], lambda rows: column(rows, "name", ["n0", None, *["n2"] * 8]))
    found = [b for b in victim.breaches() if b.kind is Kind.NULL]
    assert the_only(found).detail == "row 1 has no value for the NOT NULL column name"


def test_rows_of_another_bucket(tmp_path: Path) -> None:
    victim = Victim.new(tmp_path / "t", bucket="2")
    victim.append(range(20))
    left, right = sorted(victim.entries, key=lambda e: e.bucket)
    assert victim.breaches() == []
    moved = victim.move(left, bucket=1)
    breach = the_only(victim.breaches())
    assert (breach.kind, breach.where) == (Kind.BUCKET, victim.name(moved))
    assert "row 0 belongs to bucket 0 of 2" in breach.detail
    assert right.bucket == 1


def test_rows_of_another_partition(tmp_path: Path) -> None:
    victim = Victim.new(tmp_path / "t", partitioned=True)
    for partition in (1, 2):
        victim.append(range(3), partition)
    moved = victim.move(victim.entries[0], partition=victim.entries[1].partition)
    breach = the_only(victim.breaches())
    assert breach == Breach(Kind.PARTITION, victim.name(moved), "row 0 belongs to partition [1]")


# --------------------------------------------------------------------------- deletion vectors


def _vectors(masked: Victim) -> dict[str, DeletionVector]:
    (index,) = masked.indexes
    path = masked.metadata.paths.index_file(index.name)
    rows = {e.file.name: e.file.row_count for e in masked.entries}
    return {
        r.file: read_deletion_vector(
            masked.metadata.storage, DeletionVectorRef(r.file, path, r.offset, r.length), rows[r.file]
        )
        for r in index.ranges or ()
    }


def _put_vectors(masked: Victim, vectors: dict[str, DeletionVector]) -> None:
    (index,) = masked.indexes
    masked.list_indexes([masked.metadata.indexes.write_vectors(index.partition, index.bucket, vectors, masked.schema)])


def test_vectors_written_anew_are_sound(masked: Victim) -> None:
    _put_vectors(masked, _vectors(masked))
    assert masked.breaches() == []


def test_a_key_that_nothing_masks(masked: Victim) -> None:
    vectors = _vectors(masked)
    largest = max(vectors, key=lambda name: vectors[name].cardinality)
    positions = vectors[largest].positions()
    _put_vectors(masked, {**vectors, largest: DeletionVector.of(positions[1:])})
    breach = the_only(masked.breaches())
    assert breach.kind is Kind.DUPLICATE
    assert "1 of its keys" in breach.detail
    assert masked.breaches(deep=False) == []
    masked.change_snapshot(index_manifest=None)
    assert masked.kinds() == {Kind.DUPLICATE}


def test_swapped_vectors(masked: Victim) -> None:
    vectors = _vectors(masked)
    one, other = sorted(vectors, key=lambda name: vectors[name].cardinality)[-2:]
    _put_vectors(masked, {**vectors, one: vectors[other], other: vectors[one]})
    assert the_only(masked.breaches()).kind is Kind.CORRUPT  # the smaller file has too few rows for the other's vector
    _put_vectors(masked, {**vectors, other: vectors[one]})
    assert masked.kinds() == {Kind.DUPLICATE}
    small = min(masked.entries, key=lambda e: e.file.row_count)
    _put_vectors(masked, {**vectors, small.file.name: DeletionVector.of([small.file.row_count])})
    breach = the_only(masked.breaches())
    assert breach.kind is Kind.CORRUPT
    assert f"it deletes row {small.file.row_count} of a data file with" in breach.detail


def test_vectors_of_files_that_are_not_live(masked: Victim) -> None:
    _put_vectors(masked, {**_vectors(masked), "data-gone-0.parquet": DeletionVector.of([1])})
    breach = the_only(masked.breaches())
    assert breach.kind is Kind.VECTOR
    assert "data-gone-0.parquet, which is no live file of bucket 0" in breach.detail


def test_two_files_of_vectors_for_one_bucket(masked: Victim) -> None:
    (index,) = masked.indexes
    other = masked.metadata.indexes.write_vectors(index.partition, index.bucket, {}, masked.schema)
    masked.list_indexes([index, other])
    breach = the_only(masked.breaches())
    assert (breach.kind, breach.where) == (Kind.VECTOR, f"index/{index.name}")


def test_wrong_numbers_of_vectors(masked: Victim) -> None:
    (index,) = masked.indexes
    masked.list_indexes([dataclasses.replace(index, row_count=9)])
    assert the_only(masked.breaches()).kind is Kind.COUNT
    ranges = index.ranges or ()
    twice = dataclasses.replace(index, ranges=(*ranges, ranges[0]), row_count=len(ranges) + 1)
    masked.list_indexes([twice])
    assert the_only(masked.breaches()).detail == f"data file {ranges[0].file} has two vectors"
    wrong = dataclasses.replace(ranges[0], cardinality=(ranges[0].cardinality or 0) + 1)
    masked.list_indexes([dataclasses.replace(index, ranges=(wrong, *ranges[1:]))])
    assert "the index manifest says" in the_only(masked.breaches()).detail


def test_a_flipped_bit_in_a_vector(masked: Victim) -> None:
    (index,) = masked.indexes
    path = Path(masked.metadata.paths.index_file(index.name))
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    breach = the_only(masked.breaches())
    assert (breach.kind, breach.where) == (Kind.CORRUPT, f"index/{index.name}")
    assert "checksum" in breach.detail


def test_deletes_above_level_0(golden: Path, tmp_path: Path) -> None:
    table = golden / "java-2.0" / "dv_dedup_deletes" / "warehouse" / "default.db" / "t"
    victim = Victim.copy(table, tmp_path / "t")
    with_deletes = next(
        snapshot
        for snapshot in victim.table.snapshots()
        if snapshot.commit_kind == APPEND and any(e.file.delete_row_count for e in _entries(victim, snapshot.id))
    )
    lifted = [
        dataclasses.replace(e, file=e.file.at_level(1)) if e.file.level == 0 else e
        for e in _entries(victim, with_deletes.id)
    ]
    victim.publish(dataclasses.replace(with_deletes, id=victim.snapshot.id))
    victim.list_files(lifted)
    assert Kind.DELETES in victim.kinds(deep=False)


def _entries(victim: Victim, snapshot: int) -> list[Any]:
    from paimon_spark.metadata.live_files import live_files

    return live_files(victim.metadata, victim.metadata.snapshots.get(snapshot))


def test_a_duplicate_is_found_across_windows(tmp_path: Path) -> None:
    """Two interleaved files of many windows that share one key near their ends."""
    victim = Victim.new(tmp_path / "t", deletion_vectors__enabled="true", write_only="true")
    count = 150_000
    victim.append(np.arange(0, 2 * count, 2).tolist())
    victim.append([*range(1, 2 * count - 20, 2), 2 * count - 10])
    one, other = victim.entries
    victim.list_files([dataclasses.replace(e, file=e.file.at_level(n)) for n, e in enumerate((one, other), 1)])
    breach = the_only(victim.breaches())
    assert breach.kind is Kind.DUPLICATE
    assert f"1 of its keys have a row in another file too, such as [{2 * count - 10}]" in breach.detail
