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
from tests.spark.frames import KEYED, assert_readable, data_files, failure, load, write

Batches = Iterator[pa.RecordBatch]


def _fails_until(attempt: int) -> Callable[[Batches], Batches]:
    """Passes all rows on, then fails in partition 0, but not in that attempt of the task and later ones."""

    def fail(batches: Batches) -> Batches:

        yield from batches
        task = TaskContext.get()
        if task.partitionId() == 0 and task.attemptNumber() < attempt:
            raise RuntimeError("this attempt fails")

    return fail


def test_a_task_that_fails_at_first_is_counted_once(spark: Any, path: str) -> None:
    df = spark.range(0, 200, 1, 2).selectExpr("id", "id AS v").mapInArrow(_fails_until(2), "id bigint, v bigint")
    write(df, path, **KEYED)
    assert load(spark, path).selectExpr("count(*)", "sum(v)").collect() == [(200, 19900)]
    table = PaimonTable.open(path)
    assert len(table.snapshots()) == 1
    assert data_files(path) == {name.rsplit("/", 1)[1] for name in table.files()["file_path"].to_pylist()}


def test_a_write_that_fails_for_good_leaves_no_file(spark: Any, path: str) -> None:
    df = spark.range(0, 200, 1, 2).selectExpr("id", "id AS v").mapInArrow(_fails_until(9), "id bigint, v bigint")
    assert "this attempt fails" in failure(lambda: write(df, path, **KEYED))
    assert data_files(path) == set()
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


# --------------------------------------------------------------------------- abort, called as Spark calls it


@pytest.fixture
def writer(path: str) -> PaimonWriter:
    columns = spark_types.StructType().add("id", spark_types.LongType()).add("v", spark_types.LongType())
    return open_writer({"path": path, **KEYED}, columns, overwrite=False)


def _written(writer: PaimonWriter, task: int) -> WrittenFiles:
    part = writer._write.task(task)
    part.write(pa.record_batch({"id": pa.array([task, task + 10]), "v": pa.array([1, 2])}))
    return pickle.loads(pickle.dumps(WrittenFiles(part.finish())))


def _copy(writer: PaimonWriter) -> PaimonWriter:
    """What another process of Spark gets."""
    return pickle.loads(pickle.dumps(writer))


def test_abort_deletes_the_files_of_finished_tasks_once_a_task_is_missing(writer: PaimonWriter, path: str) -> None:
    messages = [_written(writer, 0), None, _written(writer, 2)]
    assert len(data_files(path)) >= 2
    _copy(writer).abort(messages)
    assert data_files(path) == set()
    _copy(writer).abort(messages)


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
