"""A write compacts the buckets it has touched, if the table wants that, and succeeds whether that succeeds or not."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types

from paimon_spark import PaimonTable
from paimon_spark.spark.opening import open_writer
from paimon_spark.spark.writer import WrittenFiles
from tests.spark.frames import KEYED, PARTITIONED, load, rows, write

VECTORS = {"deletion-vectors.enabled": "true"}
ROWS = "id bigint, v bigint"


def _kinds(path: str) -> list[str]:
    return [snapshot.commit_kind for snapshot in PaimonTable.open(path).snapshots()]


def _levels(path: str) -> set[int]:
    return set(PaimonTable.open(path).files()["level"].to_pylist())


def test_a_table_with_vectors_is_ready_for_readers_that_do_not_merge(spark: Any, path: str) -> None:
    write(spark.range(100).selectExpr("id", "id AS v"), path, **KEYED, **VECTORS)
    write(spark.range(0, 100, 10).selectExpr("id", "-id AS v"), path)
    assert _kinds(path) == ["APPEND", "COMPACT"] * 2
    assert 0 not in _levels(path)
    expected = [(n, -n if n % 10 == 0 else n) for n in range(100)]
    assert rows(load(spark, path, **{"deletion-vectors.merge-on-read": "false"})) == expected
    assert PaimonTable.open(path).check(all_snapshots=True) == []


def test_without_vectors_the_number_of_runs_decides(spark: Any, path: str) -> None:
    options = {"primary-key": "id", "bucket": "1", "num-sorted-run.compaction-trigger": "3"}
    for n in range(3):
        assert _kinds(path) == ["APPEND"] * n if n else True
        write(spark.createDataFrame([(1, n), (10 + n, n)], ROWS).coalesce(1), path, **(options if n == 0 else {}))
    assert _kinds(path) == ["APPEND"] * 3 + ["COMPACT"]
    assert rows(load(spark, path)) == [(1, 2), (10, 0), (11, 1), (12, 2)]
    assert PaimonTable.open(path).check() == []


def test_other_buckets_and_write_only_tables_are_left_alone(spark: Any, path: str) -> None:
    columns = "day string, id bigint, v bigint"
    monday = spark.createDataFrame([("mon", 1, 1)], columns)
    write(monday, path, **PARTITIONED, **VECTORS, **{"write-only": "true"})
    assert _kinds(path) == ["APPEND"]
    write(spark.createDataFrame([("tue", 1, 1)], columns), path, **{"write-only": "false"})
    assert _kinds(path) == ["APPEND", "APPEND", "COMPACT"]
    levels = PaimonTable.open(path).levels().to_pylist()
    assert {row["level"] for row in levels if "mon" in row["partition"]} == {0}
    assert 0 not in {row["level"] for row in levels if "tue" in row["partition"]}


def test_an_overwrite_is_compacted_too(spark: Any, path: str) -> None:
    write(spark.range(10).selectExpr("id", "id AS v"), path, **KEYED, **VECTORS)
    write(spark.range(5).selectExpr("id", "0L AS v"), path, "overwrite")
    assert 0 not in _levels(path)
    assert rows(load(spark, path)) == [(n, 0) for n in range(5)]
    assert PaimonTable.open(path).check(all_snapshots=True) == []


def test_a_compaction_that_fails_does_not_fail_the_write(path: str, caplog: pytest.LogCaptureFixture) -> None:
    columns = spark_types.StructType().add("id", spark_types.LongType()).add("v", spark_types.LongType())
    options = {"path": path, "primary-key": "id", "bucket": "1", **VECTORS}

    def one_write(v: int) -> None:
        writer = open_writer(options, columns, overwrite=False)
        task = writer._write.task(0)
        task.write(pa.record_batch({"id": pa.array(range(100)), "v": pa.array([v] * 100)}))
        writer.commit([WrittenFiles(task.finish(), 0, 0)])

    one_write(1)
    (compacted,) = PaimonTable.open(path).files()["file_path"].to_pylist()
    whole = Path(compacted).read_bytes()
    Path(compacted).write_bytes(whole[:-20])
    with caplog.at_level(logging.WARNING, "paimon_spark"):
        one_write(2)
    assert _kinds(path) == ["APPEND", "COMPACT", "APPEND"]
    (text,) = (record.getMessage() for record in caplog.records if record.name == "paimon_spark")
    assert "the write is committed, but the compaction after it failed: CorruptFile" in text
    Path(compacted).write_bytes(whole)
    one_write(3)
    assert _kinds(path)[-2:] == ["APPEND", "COMPACT"]
    table = PaimonTable.open(path)
    assert set(table.read()["v"].to_pylist()) == {3}
    assert table.check() == []
