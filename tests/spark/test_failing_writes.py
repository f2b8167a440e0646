"""Writes whose tasks or commits fail: the table is exact, and the files are where they were promised to be."""

from __future__ import annotations

import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import types as spark_types

from paimon_spark import PaimonTable
from paimon_spark.errors import PaimonError
from paimon_spark.spark.opening import open_writer
from paimon_spark.spark.writer import PaimonWriter, WrittenFiles
from tests.spark.frames import KEYED, PARTITIONED, assert_readable, data_files, failure, load, named_files, write

Batches = Iterator[pa.RecordBatch]

# Several Arrow batches a task, and files that are written before the task fails.
ROWS = 50_000
SMALL_BUFFER = {"write-buffer-size": "200 kb"}
LONGEST_WAIT_SECONDS = 120


def _fails_until(attempt: int) -> Callable[[Batches], Batches]:
    """Passes all rows on, then fails in partition 0, but not in that attempt of the task and later ones."""

    def fail(batches: Batches) -> Batches:
        yield from batches
        task = TaskContext.get()
        if task.partitionId() == 0 and task.attemptNumber() < attempt:
            raise RuntimeError("this attempt fails")

    return fail


def _spoiled_until(attempt: int) -> Callable[[Batches], Batches]:
    """Passes all rows on, and in partition 0 another one without a key, but not in that attempt and later ones."""

    def spoil(batches: Batches) -> Batches:
        for batch in batches:
            yield batch
        task = TaskContext.get()
        if task.partitionId() == 0 and task.attemptNumber() < attempt:
            yield _without_key(batch.schema)

    return spoil


def _without_key(schema: pa.Schema) -> pa.RecordBatch:
    """A row in a batch of the same schema as the others, which Spark insists on."""
    return pa.record_batch([pa.nulls(1, pa.int64()), pa.array([0])], schema=schema)


@pytest.mark.parametrize("failing", [_spoiled_until(2), _fails_until(1)], ids=["in the write", "before the write"])
def test_a_task_that_fails_at_first_is_counted_once(
    spark: Any, path: str, failing: Callable[[Batches], Batches]
) -> None:
    df = spark.range(0, ROWS, 1, 2).selectExpr("id", "id AS v").mapInArrow(failing, "id bigint, v bigint")
    write(df, path, **KEYED, **SMALL_BUFFER, **{"write-only": "true"})
    assert load(spark, path).selectExpr("count(*)", "sum(v)").collect() == [(ROWS, ROWS * (ROWS - 1) // 2)]
    table = PaimonTable.open(path)
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == ["APPEND"]
    # Every row was committed once, not once and again under the same key, and no attempt left a file.
    assert sum(table.files()["record_count"].to_pylist()) == ROWS
    assert data_files(path) == named_files(path)
    assert table.remove_orphan_files(timedelta(0), dry_run=True) == []


def test_attempts_that_fail_in_the_write_delete_their_files(spark: Any, path: str) -> None:
    columns = "day string, id bigint, v bigint"
    write(spark.sql("SELECT 'mon' AS day, 1L AS id, 1L AS v UNION ALL SELECT 'tue', 1L, 1L"), path, **PARTITIONED)
    before = data_files(path)
    rows_of_monday = (
        spark.range(0, ROWS, 1, 2).selectExpr("id", "id AS v").mapInArrow(_spoiled_until(1), "id long, v long")
    )
    df = rows_of_monday.selectExpr("'mon' AS day", "id", "v").to(spark.createDataFrame([], columns).schema)
    write(df, path, "overwrite", partitionOverwriteMode="dynamic", **SMALL_BUFFER)
    assert load(spark, path).groupBy("day").count().orderBy("day").collect() == [("mon", ROWS), ("tue", 1)]
    assert data_files(path) == named_files(path) | before


def test_a_write_that_fails_for_good_leaves_no_file(spark: Any, path: str, tmp_path: Path) -> None:
    """The other task has finished by then; what one writes after the write was given up may stay."""
    finished = tmp_path / "finished"

    def spoil(batches: Batches) -> Batches:
        for batch in batches:
            yield batch
        if TaskContext.get().partitionId() == 0:
            end = time.monotonic() + LONGEST_WAIT_SECONDS
            while not finished.exists():
                if time.monotonic() > end:
                    raise TimeoutError("the other task has not finished, or nobody has noticed")
                time.sleep(0.02)
            yield _without_key(batch.schema)

    df = spark.range(0, ROWS, 1, 2).selectExpr("id", "id AS v").mapInArrow(spoil, "id bigint, v bigint")
    with _sign_of_a_finished_task(spark, finished):
        assert "column 'id' is BIGINT NOT NULL" in failure(lambda: write(df, path, **KEYED, **SMALL_BUFFER))
    assert finished.exists()
    assert data_files(path) == set()
    assert PaimonTable.open(path).snapshots() == []


@contextmanager
def _sign_of_a_finished_task(spark: Any, sign: Path) -> Iterator[None]:
    """Makes the file ``sign`` as soon as a task of a running stage has finished."""
    tracker, left = spark.sparkContext.statusTracker(), Event()

    def watch() -> None:
        while not left.wait(0.02):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(stage is not None and stage.numCompletedTasks for stage in stages):
                sign.touch()
                return

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        left.set()
        watcher.join()


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
    return pickle.loads(pickle.dumps(WrittenFiles(part.finish(), 0, task)))


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


def test_a_commit_after_retries_deletes_what_lost_attempts_left(writer: PaimonWriter, path: str) -> None:
    PaimonTable.open(path).append(pa.table({"id": [7], "v": [7]}))
    lost, won, first = _written(writer, 0), _written(writer, 0), _written(writer, 1)
    assert len(data_files(path)) > len(lost.message.entries) + 1
    _copy(writer).commit([replace(won, attempt=1), first])
    assert data_files(path) == named_files(path)
    assert PaimonTable.open(path).read().num_rows == 5


def test_a_commit_after_a_stage_that_ran_again_deletes_what_the_first_run_left(writer: PaimonWriter, path: str) -> None:
    """Spark numbers the attempts of the second run from zero; that other tasks ran in between is all that tells."""
    first, _, lost = _written(writer, 0), _written(writer, 1), _written(writer, 2)
    again = [replace(_written(writer, task), attempt_id=3 + task) for task in (1, 2)]
    assert len(data_files(path)) > len(lost.message.entries) * 3
    _copy(writer).commit([first, *again])
    assert data_files(path) == named_files(path)
    assert PaimonTable.open(path).read().num_rows == 6


def test_a_commit_of_buckets_with_owners_always_looks_for_leftovers(writer: PaimonWriter, path: str) -> None:
    """Where all tasks ran again, nothing tells; a write that shuffles looks in any case."""
    owned = PaimonWriter(writer._write, writer._rows, owned_buckets=True)
    lost, again = _written(owned, 0), _written(owned, 0)
    assert len(data_files(path)) == 2 * len(lost.message.entries)
    _copy(owned).commit([again])
    assert data_files(path) == named_files(path)


def test_two_attempts_of_a_partition_are_one_message(writer: PaimonWriter, path: str) -> None:
    """Both finished, as with speculation; Spark hands over the message of the one that it let commit."""
    winner, zombie, other = _written(writer, 0), _written(writer, 0), _written(writer, 1)
    _copy(writer).commit([replace(winner, attempt=1), other])
    table = PaimonTable.open(path)
    assert sum(table.files()["record_count"].to_pylist()) == table.read().num_rows == 4
    zombies = {entry.file.name for entry in zombie.message.entries}
    assert zombies & data_files(path) == set()
    assert data_files(path) == named_files(path)


# --------------------------------------------------------------------------- a driver that dies

DRIVER = """
import os, signal, sys
import pyarrow as pa
from pyspark.sql import types
from paimon_spark.spark.opening import open_writer

columns = types.StructType().add("id", types.LongType()).add("v", types.LongType())
writer = open_writer({"path": sys.argv[1]}, columns, overwrite=False)
for number in range(2):
    task = writer._write.task(number)
    task.write(pa.record_batch({"id": pa.array([number, 10 + number]), "v": pa.array([5, 6])}))
    print(*(entry.file.name for entry in task.finish().entries))
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_driver_killed_before_its_commit_leaves_orphans_that_are_found(path: str) -> None:
    table = PaimonTable.create(path, pa.schema([("id", pa.int64()), ("v", pa.int64())]), ["id"], options=KEYED)
    table.append(pa.table({"id": [0, 1, 2], "v": [0, 1, 2]}))
    live = data_files(path)
    driver = subprocess.run([sys.executable, "-c", DRIVER, path], capture_output=True, text=True, check=False)
    assert driver.returncode == -signal.SIGKILL, driver.stderr
    leaked = set(driver.stdout.split())
    assert len(leaked) == 4
    assert data_files(path) == live | leaked
    table = PaimonTable.open(path)
    assert [snapshot.id for snapshot in table.snapshots()] == [1]
    assert sorted(table.read()["v"].to_pylist()) == [0, 1, 2]
    assert table.remove_orphan_files() == [], "files of less than a day may be of a write that is under way"
    assert {Path(found).name for found in table.remove_orphan_files(timedelta(0))} == leaked
    assert data_files(path) == live
    assert sorted(table.read()["v"].to_pylist()) == [0, 1, 2]


def test_an_attempt_that_outlives_the_write_deletes_its_files(spark: Any, writer: PaimonWriter, path: str) -> None:
    _copy(writer).commit([_written(writer, 0)])

    def write_late(_: int) -> int:
        late = writer.write(iter([pa.record_batch({"id": pa.array([50]), "v": pa.array([1])})]))
        return len(late.message.entries)

    assert spark.sparkContext.parallelize([0], 1).map(write_late).collect() == [1]
    assert data_files(path) == named_files(path)
    assert PaimonTable.open(path).read(filters=[("id", "=", 50)]).num_rows == 0


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
