"""The program that is submitted to a cluster: writes and compactions during which tasks fail, stand still or die.

    spark-submit … program.py <directory> <scenario>…

Every scenario has a table of its own below ``directory``, with one column that is filled and compacted, and another
that comes now, while faults are met (see ``faults/sitecustomize.py``). It leaves a file ``<scenario>.passed`` or
``<scenario>.failed``, the latter with the stack trace.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from tests.spark.frames import assert_rows, data_files, load, write

ROWS = 3000
LONGEST_CLEANING_SECONDS = 300
SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
OPTIONS = {
    "bucket": "3",
    "merge-engine": "partial-update",
    "deletion-vectors.enabled": "true",
    "write-buffer-size": "10 kb",
    "target-file-size": "1 b",
    "read.batch-size": "200",
}


class Scenario:
    """A table, its faults, and what both must be like at the end."""

    def __init__(self, spark: SparkSession, directory: Path, name: str) -> None:
        self.spark = spark
        self.path = str(directory / name)
        self.faults = directory / "faults"
        for left in self.faults.iterdir():
            left.unlink()
        numbers = range(ROWS)
        columns = {"id": pa.array(numbers), "a": pa.array([3 * n for n in numbers]), "b": pa.nulls(ROWS, pa.int64())}
        table = PaimonTable.create(self.path, SCHEMA, ["id"], options=OPTIONS)
        table.append(pa.table(columns, SCHEMA))
        table.compact()

    def append(self) -> None:
        """The rows of :meth:`rows`, without Spark and without a compaction."""
        numbers = range(0, ROWS, 2)
        PaimonTable.open(self.path).append(pa.table({"id": pa.array(numbers), "b": pa.array([-n for n in numbers])}))

    def arm(self, *faults: str) -> None:
        """The faults that are met from now on, such as ``fail-1``."""
        for fault in faults:
            (self.faults / fault).touch()

    def has_met(self, *faults: str) -> bool:
        """Whether somebody has met each of the faults."""
        return not any((self.faults / fault).exists() for fault in faults)

    def rows(self) -> DataFrame:
        """``b`` of even numbers, in two tasks."""
        return self.spark.range(0, ROWS, 2, 2).selectExpr("id", "-id AS b")

    def failing(self, frame: DataFrame) -> DataFrame:
        """The same rows, but each fault ``upstream-<n>`` fails a task after its last row."""
        faults = str(self.faults)

        def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches
            attempt = TaskContext.get().attemptNumber()
            with suppress(FileNotFoundError):
                os.unlink(f"{faults}/upstream-{attempt}")
                raise RuntimeError(f"attempt {attempt} fails")

        return frame.mapInArrow(fail, frame.schema)

    def expect(self, kinds: str) -> None:
        """Both feeds are in the table; its snapshots are of these kinds (Append, Compact) and sound, and no file is
        there that they do not name."""
        table = PaimonTable.open(self.path)
        assert "".join(snapshot.commit_kind[0] for snapshot in table.snapshots()) == kinds
        model = [{"id": n, "a": 3 * n, "b": None if n % 2 else -n} for n in range(ROWS)]
        assert table.read().sort_by("id").to_pylist() == model
        assert table.check(all_snapshots=True) == []
        self._expect_no_other_files(table)

    def expect_of_readers(self) -> None:
        """Executors read what this process reads, through Spark's parquet reader and without."""
        expected = self.spark.createDataFrame(
            PaimonTable.open(self.path).read().to_pylist(), load(self.spark, self.path).schema
        )
        assert_rows(load(self.spark, self.path), expected)
        assert_rows(paimon_spark.read(self.spark, self.path), expected)

    def _expect_no_other_files(self, table: PaimonTable) -> None:
        """Attempts may outlive their job, and their processes may outlive them; both delete their files themselves."""
        ids = [snapshot.id for snapshot in table.snapshots()]
        paths = [path for i in ids for path in table.files({"scan.snapshot-id": str(i)})["file_path"].to_pylist()]
        named = {path.rsplit("/", 1)[1] for path in paths}
        _until_empty(self._running_tasks)
        _until_empty(lambda: [*(data_files(self.path) - named), *table.remove_orphan_files(timedelta(0), dry_run=True)])

    def _running_tasks(self) -> list[str]:
        """The executors that are busy, even if with tasks whose results nobody wants any more."""
        executors = self.spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        return [executor.host() for executor in executors if executor.numRunningTasks()]


def _until_empty(left: Callable[[], list[str]]) -> None:
    """Wait until nothing is left."""
    end = time.monotonic() + LONGEST_CLEANING_SECONDS
    while found := left():
        assert time.monotonic() < end, found
        time.sleep(0.05)


def appends_while_tasks_fail(it: Scenario) -> None:
    """``df.write``: the rows of one attempt end in an error, and the disk of another fails."""
    it.arm("upstream-0", "fail-1")
    write(it.failing(it.rows()), it.path)
    assert it.has_met("upstream-0", "fail-1")
    it.expect("ACAC")
    it.expect_of_readers()


def writes_by_bucket_while_tasks_fail(it: Scenario) -> None:
    """``paimon_spark.write``: rows end in errors twice before the shuffle, and disks fail behind it."""
    it.arm("upstream-0", "upstream-1", "fail-1", "fail-2")
    paimon_spark.write(it.failing(it.rows()), it.path)
    assert it.has_met("upstream-0", "upstream-1", "fail-1", "fail-2")
    it.expect("ACAC")


def compactions_while_tasks_fail(it: Scenario) -> None:
    """``paimon_spark.compact``: disks fail three times, and four times would be too often."""
    it.append()
    it.arm("fail-1", "fail-2", "fail-3")
    assert paimon_spark.compact(it.spark, it.path) is not None
    assert it.has_met("fail-1", "fail-2", "fail-3")
    it.expect("ACAC")
    it.expect_of_readers()


def appends_while_an_executor_dies(it: Scenario) -> None:
    """``df.write`` of rows from a shuffle, part of which dies with the executor, so that its stage runs again."""
    it.arm("kill-1")
    write(it.rows().repartition(3), it.path)
    assert it.has_met("kill-1")
    it.expect("ACAC")


def writes_by_bucket_while_an_executor_dies(it: Scenario) -> None:
    """``paimon_spark.write``, which shuffles by itself."""
    it.arm("kill-1")
    paimon_spark.write(it.rows(), it.path)
    assert it.has_met("kill-1")
    it.expect("ACAC")


def compactions_while_an_executor_dies(it: Scenario) -> None:
    """``paimon_spark.compact``."""
    it.append()
    it.arm("kill-1")
    assert paimon_spark.compact(it.spark, it.path, full=True) is not None
    assert it.has_met("kill-1")
    it.expect("ACAC")


def writes_by_bucket_with_a_straggler(it: Scenario) -> None:
    """``paimon_spark.write``: Spark starts a second copy of a task that stands still, and takes its report."""
    it.arm("wait-1")
    paimon_spark.write(it.rows(), it.path)
    assert (it.faults / "waiting").exists()
    it.arm("go")
    it.expect("ACAC")


def compactions_with_a_straggler(it: Scenario) -> None:
    """``paimon_spark.compact``, too."""
    it.append()
    it.arm("wait-1")
    assert paimon_spark.compact(it.spark, it.path) is not None
    assert (it.faults / "waiting").exists()
    it.arm("go")
    it.expect("ACAC")


SCENARIOS: dict[str, Callable[[Scenario], None]] = {
    scenario.__name__: scenario
    for scenario in (
        appends_while_tasks_fail,
        writes_by_bucket_while_tasks_fail,
        compactions_while_tasks_fail,
        appends_while_an_executor_dies,
        writes_by_bucket_while_an_executor_dies,
        compactions_while_an_executor_dies,
        writes_by_bucket_with_a_straggler,
        compactions_with_a_straggler,
    )
}


def main(directory: Path, names: list[str]) -> None:
    """Run the scenarios of these names in one session."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for name in names:
        begin = time.monotonic()
        try:
            SCENARIOS[name](Scenario(spark, directory, name))
            (directory / f"{name}.passed").touch()
        except Exception:
            (directory / f"{name}.failed").write_text(traceback.format_exc())
        print(name, round(time.monotonic() - begin, 1), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
