"""The second referee agrees with the first one about tables that either of them wrote."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.java.referee import JavaPaimon
from tests.java.rows import assert_same_rows, golden_snapshots, golden_table
from tests.peers.referee import Pypaimon, PypaimonError

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int32()), ("s", pa.string())])
FIRST = pa.table({"k": [1, 2, 3], "a": [1, None, 3], "s": [None, "b", "c"]}, SCHEMA)
SECOND = pa.table({"k": [3, 1], "a": [None, None], "s": ["new", "first"]}, SCHEMA)
MERGED = pa.table({"k": [1, 2, 3], "a": [1, None, 3], "s": ["first", "b", "new"]}, SCHEMA)
OPTIONS = {"bucket": "2", "merge-engine": "partial-update"}


@pytest.mark.parametrize("case", ["dv_partition_buckets", "pu_basic", "all_types_parquet"])
def test_reads_what_java_wrote(pypaimon: Pypaimon, golden: Path, case: str) -> None:
    table = golden / "java-2.0" / case / "warehouse" / "default.db" / "t"
    record = golden_snapshots(golden / "java-2.0" / case)[-1]
    rows = pypaimon.read(table)
    assert_same_rows(rows, golden_table(record, rows.schema))


def test_writes_what_java_reads(pypaimon: Pypaimon, java: JavaPaimon, tmp_path: Path) -> None:
    table = tmp_path / "default.db" / "t"
    pypaimon.create(table, SCHEMA, ["k"], options=OPTIONS)
    pypaimon.append(table, FIRST)
    pypaimon.append(table, SECOND)
    assert_same_rows(pypaimon.read(table), MERGED)
    assert_same_rows(java.read(table), MERGED)
    assert pypaimon.read(table, columns=["s"], options={"scan.snapshot-id": "1"}).column_names == ["s"]


def test_says_what_pypaimon_said(pypaimon: Pypaimon, tmp_path: Path) -> None:
    with pytest.raises(PypaimonError, match="No schema found"):
        pypaimon.read(tmp_path / "nothing")
