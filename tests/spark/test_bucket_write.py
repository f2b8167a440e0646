"""paimon_spark.write: each bucket has one task, the executors compact, and the rows are the same as ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext

import paimon_spark
from paimon_spark import InvalidInput, PaimonTable, UnsupportedFeature
from paimon_spark.spark.bucket_owners import inverse
from paimon_spark.spark.options import OWNED_BUCKETS
from tests.spark.frames import KEYED, assert_readable, assert_rows, data_files, failure, load, named_files, rows, write

ROWS = 3000
VECTORS = {"deletion-vectors.enabled": "true"}


def _kinds(path: str) -> list[str]:
    return [snapshot.commit_kind for snapshot in PaimonTable.open(path).snapshots()]


def _buckets(path: str) -> int:
    """The number of buckets with files; each has one, so it had one task."""
    files = PaimonTable.open(path).files()
    buckets = set(zip(files["partition"].to_pylist(), files["bucket"].to_pylist(), strict=True))
    assert len(buckets) == files.num_rows
    return len(buckets)


def test_a_bucket_is_written_by_one_task(spark: Any, path: str) -> None:
    df = spark.range(0, ROWS, 1, 5).selectExpr("id", "id * 2 AS v")
    paimon_spark.write(df, path, **{"primary-key": "id", "bucket": 7, "write-only": True})
    assert (_kinds(path), _buckets(path)) == (["APPEND"], 7)
    assert_rows(load(spark, path), df)
    assert PaimonTable.open(path).check() == []


def test_keys_of_many_types_in_partitions(spark: Any, path: str) -> None:
    keys = (
        "CASE id % 3 WHEN 0 THEN 'mon' WHEN 1 THEN 'tue' ELSE 'wed' END AS day",
        "concat('key ', id) AS `a string`",
        "CAST(id AS decimal(22, 3)) AS `a.decimal`",
        "timestamp_micros(id * 1001 - 1000000) AS `a time`",
        "date_add(date'1969-12-01', CAST(id AS int)) AS a_date",
    )
    options = {"primary-key": "day,a string,a.decimal,a time,a_date", "partition": "day", "bucket": "4"}
    paimon_spark.write(spark.range(0, ROWS, 1, 3).selectExpr(*keys, "id AS v"), path, **options)
    assert _buckets(path) == 12
    assert load(spark, path).selectExpr("count(*)", "sum(v)").collect() == [(ROWS, ROWS * (ROWS - 1) // 2)]
    assert PaimonTable.open(path).check() == []


def test_keys_of_a_narrower_type_and_a_coarser_time(spark: Any, path: str) -> None:
    """Rows meet in the table's types: all microseconds of a millisecond, before 1970 too, are one key."""
    schema = pa.schema([("t", pa.timestamp("ms")), ("n", pa.int64()), ("v", pa.int64())])
    PaimonTable.create(path, schema, ["t", "n"], options={"bucket": "5", "write-only": "true"})
    time = "CAST(timestamp_micros(id - 25000) AS timestamp_ntz) AS t"
    df = spark.range(0, 50_000, 10, 3).selectExpr(time, "CAST(id % 3 AS int) AS n", "id AS v")
    paimon_spark.write(df, path)
    assert _buckets(path) == 5
    assert load(spark, path).count() == 50 * 3
    assert PaimonTable.open(path).check() == []


def test_the_executors_compact(spark: Any, path: str) -> None:
    df = spark.range(0, ROWS, 1, 3).selectExpr("id", "id AS v")
    paimon_spark.write(df, path, **KEYED, **VECTORS)
    paimon_spark.write(df.filter("id % 10 = 0").selectExpr("-v AS v", "id"), path)
    assert _kinds(path) == ["APPEND", "COMPACT"] * 2
    assert 0 not in PaimonTable.open(path).files()["level"].to_pylist()
    expected = df.selectExpr("id", "IF(id % 10 = 0, -v, v) AS v")
    assert_rows(load(spark, path, **{"deletion-vectors.merge-on-read": "false"}), expected)
    assert PaimonTable.open(path).check(all_snapshots=True) == []


def test_overwrites(spark: Any, path: str) -> None:
    columns = "day string, id bigint, v bigint"
    options = {"primary-key": "day,id", "partition": "day", "bucket": "2"}
    paimon_spark.write(spark.createDataFrame([("mon", 1, 1), ("tue", 1, 1)], columns), path, **options)
    new = spark.createDataFrame([("mon", 2, 2)], columns)
    paimon_spark.write(new, path, "overwrite", partitionOverwriteMode="dynamic")
    assert rows(load(spark, path)) == [("mon", 2, 2), ("tue", 1, 1)]
    paimon_spark.write(new, path, "overwrite")
    assert rows(load(spark, path)) == [("mon", 2, 2)]


def test_a_task_that_fails_at_first_is_counted_once(spark: Any, path: str) -> None:
    def fail_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        if task.partitionId() == 0 and task.attemptNumber() == 0:
            raise RuntimeError("this attempt fails")

    df = spark.range(0, ROWS, 1, 2).selectExpr("id", "id AS v").mapInArrow(fail_at_first, "id bigint, v bigint")
    paimon_spark.write(df, path, **KEYED)
    assert (_kinds(path), _buckets(path)) == (["APPEND"], 2)
    assert load(spark, path).selectExpr("count(*)", "sum(v)").collect() == [(ROWS, ROWS * (ROWS - 1) // 2)]
    assert data_files(path) == named_files(path)


def test_two_owners_of_a_bucket_are_refused(spark: Any, path: str) -> None:
    df = spark.range(0, ROWS, 1, 2).selectExpr("id", "id AS v")
    message = failure(lambda: write(df, path, **KEYED, **{OWNED_BUCKETS: "true"}))
    assert_readable(message, "two tasks wrote bucket 0 of one partition, so nothing was committed")
    assert (data_files(path), _kinds(path)) == (set(), [])


def test_what_does_not_fit_is_refused(spark: Any, path: str) -> None:
    paimon_spark.write(spark.createDataFrame([(1, 1)], "id bigint, v bigint"), path, **KEYED)
    with pytest.raises(InvalidInput, match="column 'w' does not exist"):
        paimon_spark.write(spark.createDataFrame([(1, 1)], "id bigint, w bigint"), path)
    nulls = spark.createDataFrame([(None, 1)], "id bigint, v bigint")
    assert "column 'id' is BIGINT NOT NULL" in failure(lambda: paimon_spark.write(nulls, path))
    with pytest.raises(UnsupportedFeature, match="Spark Connect"):
        paimon_spark.write(type("Frame", (), {"sparkSession": None})(), path)


@pytest.mark.parametrize("tasks", [1, 2, 7, 200])
def test_numbers_whose_hash_is_each_task(spark: Any, tasks: int) -> None:
    numbers = list(enumerate(inverse(tasks).tolist()))
    found = spark.createDataFrame(numbers, "task int, n int").filter(f"pmod(hash(n), {tasks}) != task")
    assert found.collect() == []
    assert np.unique(inverse(tasks)).size == tasks
