"""The levels of tables: files, rows, masked rows, bytes and keys of each."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.check.shape import SCHEMA
from paimon_spark.table import PaimonTable
from tests.check.damage import Victim


def test_levels_of_our_tables(tmp_path: Path) -> None:
    victim = Victim.new(tmp_path / "t", partitioned=True, bucket="2")
    assert victim.table.levels() == SCHEMA.empty_table()
    victim.append(range(100), partition=2)
    victim.append(range(90, 110), partition=2)
    victim.append([5], partition=1)
    levels = victim.table.levels()
    assert levels.schema == SCHEMA
    assert levels.column("partition").to_pylist() == ["p=1", "p=2", "p=2"]
    assert levels.column("bucket").to_pylist()[1:] == [0, 1]
    assert levels.column("files").to_pylist() == [1, 2, 2]
    assert sum(levels.column("rows").to_pylist()) == 121
    assert levels.slice(0, 1).select(["level", "rows", "deleted_rows", "min_key", "max_key"]).to_pylist() == [
        {"level": 0, "rows": 1, "deleted_rows": 0, "min_key": "[5]", "max_key": "[5]"}
    ]
    assert {levels.column("min_key")[i].as_py() for i in (1, 2)} >= {"[0]"}
    assert "[109]" in levels.column("max_key").to_pylist()
    before = victim.table.levels({"scan.snapshot-id": "1"})
    assert sum(before.column("rows").to_pylist()) == 100
    assert sum(levels.column("bytes").to_pylist()) == sum(victim.path(e).stat().st_size for e in victim.entries)


@pytest.mark.parametrize("java", ["java-0.9", "java-2.0"])
def test_masked_rows_of_javas_tables(golden: Path, java: str) -> None:
    """Java 0.9 does not record cardinalities, so the vectors themselves are counted."""
    table = PaimonTable.open(str(golden / java / "dv_multi_file" / "warehouse" / "default.db" / "t"))
    levels = table.levels()
    assert levels.column("level").to_pylist() == [2, 3, 4, 5]
    assert pc.sum(levels.column("deleted_rows")).as_py() > 0
    left = pc.sum(pc.subtract(levels.column("rows"), levels.column("deleted_rows"))).as_py()
    assert left == table.read().num_rows
    assert pa.types.is_int64(levels.schema.field("deleted_rows").type)
