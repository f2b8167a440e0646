"""The referee is trusted because it reads tables that Java wrote earlier and returns what Java returned then."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.java.referee import JavaPaimon
from tests.java.rows import assert_same_rows, canonical, golden_snapshots, golden_table

CASES = [
    "java-0.9/all_types_parquet",
    "java-0.9/all_types_orc",
    "java-0.9/all_types_avro",
    "java-0.9/dv_pu",
    "java-0.9/dv_multi_file",
    "java-0.9/pu_seqgroups",
    "java-0.9/pu_basic",
    "java-0.9/partition_kinds",
    "java-0.9/schema_evolution",
    "java-2.0/dv_partition_buckets",
    "java-2.0/dedup_sequence_field",
]


@pytest.mark.parametrize("case", CASES)
def test_reads_every_snapshot_as_java_did(java: JavaPaimon, golden: Path, case: str) -> None:
    table = golden / case / "warehouse" / "default.db" / "t"
    records = golden_snapshots(golden / case)
    assert records
    for record in records:
        rows = java.read(table, snapshot=record["snapshot"])
        assert_same_rows(rows, golden_table(record, rows.schema))


def test_counts_the_rows_that_deletion_vectors_hide(java: JavaPaimon, golden: Path) -> None:
    table = golden / "java-0.9" / "dv_multi_file" / "warehouse" / "default.db" / "t"
    files = java.files(table)
    assert sorted((f.level, f.rows, f.deleted) for f in files) == [(2, 14, 0), (3, 20, 1), (4, 25, 13), (5, 1000, 43)]
    assert sum(f.rows - f.deleted for f in files) == java.read(table).num_rows


COLUMNS = {"k": "BIGINT NOT NULL", "s": "STRING", "tags": {"type": "ARRAY", "element": "STRING"}}
ROWS = [{"k": k, "s": f"v{k}", "tags": ["a", None]} for k in range(100)]


def test_writes_deletes_compacts_and_lists(java: JavaPaimon, tmp_path: Path) -> None:
    table = tmp_path / "t"
    java.create(table, COLUMNS, ["k"], options={"bucket": "2"})
    assert java.latest_snapshot(table) is None
    assert java.append(table, ROWS) == 1
    assert java.append(table, [{"k": 7}, {"k": 8, "s": "new"}], kinds=["-D", "+U"]) == 2
    expected = pa.Table.from_pylist(
        [r if r["k"] != 8 else {"k": 8, "s": "new"} for r in ROWS if r["k"] != 7], java.read(table).schema
    )
    assert_same_rows(java.read(table), expected)
    assert_same_rows(java.read(table, columns=["s", "k"]), expected.select(["s", "k"]))
    assert java.read(table, snapshot=1).num_rows == 100
    assert {f.level for f in java.files(table)} == {0}
    assert java.compact(table) == 3
    assert {f.level for f in java.files(table)} == {5}
    assert_same_rows(java.read(table), expected)


def test_alters_a_schema(java: JavaPaimon, tmp_path: Path) -> None:
    table = tmp_path / "t"
    java.create(table, COLUMNS, ["k"], options={"bucket": "1"})
    java.append(table, ROWS[:1])
    java.alter(table, ("addColumn", "extra", "DECIMAL(5, 2)"), ("renameColumn", "s", "text"))
    assert java.read(table).to_pylist() == [{"k": 0, "text": "v0", "tags": ["a", None], "extra": None}]


def test_comparison_tells_rows_apart() -> None:
    left = pa.table({"x": [0.0, float("nan")], "m": pa.array([[("a", 1), ("b", 2)], None], pa.map_("string", "int32"))})
    right = pa.table(
        {"x": [float("nan"), 0.0], "m": pa.array([None, [("b", 2), ("a", 1)]], pa.map_("string", "int32"))}
    )
    assert_same_rows(left, right)
    assert canonical(pa.table({"x": [0.0]})) != canonical(pa.table({"x": [-0.0]}))
    with pytest.raises(AssertionError, match="1 rows missing, 1 rows too many"):
        assert_same_rows(pa.table({"x": [1, 2]}), pa.table({"x": [1, 3]}))
