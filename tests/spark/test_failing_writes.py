"""Writes whose tasks or commits fail: the table is exact, and the files are where they were promised to be."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import types as spark_types

from paimon_spark import PaimonTable
from paimon_spark.errors import PaimonError
from paimon_spark.spark.writer import PaimonWriter, WrittenFiles, open_writer
from tests.spark.frames import KEYED, PARTITIONED, assert_readable, data_files, failure, load, named_files, write

Batches = Iterator[pa.RecordBatch]

# Several Arrow batches a task, and files that are written before the task fails.
ROWS = 50_000
SMALL_BUFFER = {"write-buffer-size": "200 kb"}


def _fails_until(attempt: int) -> Callable[[Batches], Batches]:
    """Passes all rows on, then fails in partition 0, but not in that attempt of the task and later ones."""

    def fail(batches: Batches) -> Batches:

        yield from batches
        task = TaskContext.get()
        if task.partitionId() == 0 and task.attemptNumber() < attempt:
            raise RuntimeError("this attempt fails")

    return fail


def test_a_task_that_fails_at_first_is_counted_once(spark: Any, path: str) -> None:
    df = spark.range(0, ROWS, 1, 2).selectExpr("id", "id AS v").mapInArrow(_fails_until(2), "id bigint, v bigint")
    write(df, path, **KEYED, **SMALL_BUFFER)
    assert load(spark, path).selectExpr("count(*)", "sum(v)").collect() == [(ROWS, ROWS * (ROWS - 1) // 2)]
    assert len(PaimonTable.open(path).snapshots()) == 1
    assert data_files(path) == named_files(path)


def test_a_write_that_fails_for_good_leaves_no_file(spark: Any, path: str) -> None:
    last_of_the_first_task = ROWS // 2 - 1
    df = spark.range(0, ROWS, 1, 2).selectExpr(f"IF(id = {last_of_the_first_task}, NULL, id) AS id", "id AS v")
    assert "column 'id' is BIGINT NOT NULL" in failure(lambda: write(df, path, **KEYED, **SMALL_BUFFER))
    assert data_files(path) == set()
    assert PaimonTable.open(path).snapshots() == []


def test_a_write_whose_source_fails_publishes_nothing(spark: Any, path: str) -> None:
    df = spark.range(0, ROWS, 1, 2).selectExpr("id", "id AS v").mapInArrow(_fails_until(9), "id bigint, v bigint")
    assert "this attempt fails" in failure(lambda: write(df, path, **KEYED))
    assert PaimonTable.open(path).snapshots() == []


def test_a_commit_that_fails_deletes_its_files(spark: Any, path: str) -> None:
    write(spark.range(3).selectExpr("id", "id AS v"), path, **KEYED)
    before = data_files(path)

    def break_the_table(batches: Batches) -> Batches:
        yield from batches
        shutil.rmtree(f"{path}/manifest", ignore_errors=True)

    df = spark.range(3, 6, 1, 1).selectExpr("id", "id AS v").mapInArrow(break_the_table, "id bigint, v bigint")
    assert_readable(failure(lambda: write(df, path)), "manifest")
    assert data_files(path) == before
    assert len(PaimonTable.open(path).snapshots()) == 1


def test_a_dynamic_overwrite_with_retries_leaves_nothing(spark: Any, path: str) -> None:
    columns = "day string, id bigint, v bigint"
    write(spark.sql("SELECT 'mon' AS day, 1L AS id, 1L AS v UNION ALL SELECT 'tue', 1L, 1L"), path, **PARTITIONED)
    rows_of_monday = spark.range(0, ROWS, 1, 2).selectExpr("'mon' AS day", "id", "id AS v")
    df = rows_of_monday.mapInArrow(_fails_until(1), columns)
    before = data_files(path)
    write(df, path, "overwrite", partitionOverwriteMode="dynamic", **SMALL_BUFFER)
    assert load(spark, path).groupBy("day").count().orderBy("day").collect() == [("mon", ROWS), ("tue", 1)]
    assert data_files(path) == named_files(path) | before


# --------------------------------------------------------------------------- abort, called as Spark calls it


@pytest.fixture
def writer(path: str) -> PaimonWriter:
    columns = spark_types.StructType().add("id", spark_types.LongType()).add("v", spark_types.LongType())
    return open_writer({"path": path, **KEYED}, columns, overwrite=False)


def _written(writer: PaimonWriter, task: int) -> WrittenFiles:
    part = writer._write.task(task)
    part.write(pa.record_batch({"id": pa.array([task, task + 10]), "v": pa.array([1, 2])}))
    return pickle.loads(pickle.dumps(WrittenFiles(part.finish(), 0)))


def _copy(writer: PaimonWriter) -> PaimonWriter:
    """What another process of Spark gets."""
    return pickle.loads(pickle.dumps(writer))


def test_abort_deletes_the_files_of_finished_tasks_once_a_task_is_missing(writer: PaimonWriter, path: str) -> None:
    messages = [_written(writer, 0), None, _written(writer, 2)]
    assert len(data_files(path)) >= 2
    other = PaimonTable.open(path)
    other.append(pa.table({"id": [7], "v": [7]}))
    _copy(writer).abort(messages)
    assert data_files(path) == named_files(path)
    _copy(writer).abort(messages)
    assert other.read().to_pylist() == [{"id": 7, "v": 7}]


def test_abort_after_a_commit_whose_outcome_nobody_knows_keeps_the_files(writer: PaimonWriter, path: str) -> None:
    messages = [_written(writer, 0), _written(writer, 1)]
    written = data_files(path)
    _copy(writer).abort(messages)
    assert data_files(path) == written
    _copy(writer).commit(messages)
    assert PaimonTable.open(path).read().num_rows == 4


def test_abort_never_deletes_what_is_published(writer: PaimonWriter, path: str) -> None:
    messages = [_written(writer, 0), _written(writer, 1)]
    _copy(writer).commit(messages)
    _copy(writer).abort([*messages, None])
    assert PaimonTable.open(path).read().num_rows == 4


def test_a_known_failure_of_the_commit_deletes_the_files_itself(writer: PaimonWriter, path: str) -> None:
    messages = [_written(writer, 0)]
    manifests = Path(path, "manifest")
    manifests.write_bytes(b"")
    with pytest.raises((PaimonError, OSError)):
        _copy(writer).commit(messages)
    _copy(writer).abort(messages)
    assert data_files(path) == set()
