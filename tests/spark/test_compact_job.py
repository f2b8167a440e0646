"""Compaction as a Spark job: what it leaves, who wins, and what lost attempts leave behind."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

import paimon_spark
from paimon_spark import CorruptFile, InvalidInput, PaimonError, PaimonTable, UnsupportedFeature
from paimon_spark.compact.bucket_compaction import CompactionResult
from paimon_spark.compact.bucket_state import BucketState, bucket_states
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import DATA_FILE_PREFIX
from paimon_spark.spark.compact_job import _Executors
from paimon_spark.spark.leftovers import unique_prefix
from paimon_spark.storage.local import LocalStorage
from tests.java.jvm import QUICK_JVM, java_home
from tests.spark.frames import data_files
from tests.spark.versions import newest_only

REPO = Path(__file__).resolve().parents[2]
SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
ROWS = 400
LONGEST_RUN_SECONDS = 600


@pytest.fixture
def table(path: str) -> PaimonTable:
    """Two partitions of three buckets with deletion vectors: upserts upon upserts, not compacted."""
    options = {"bucket": "3", "deletion-vectors.enabled": "true", "write-only": "true"}
    table = PaimonTable.create(path, SCHEMA, ["day", "id"], ["day"], options)
    for i in range(3):
        for day in ("mon", "tue"):
            ids = range(0, ROWS, i + 1)
            table.append(pa.table([[day] * len(ids), list(ids), [n * 10 + i for n in ids]], schema=SCHEMA))
    return table


def _content(table: PaimonTable, **options: str) -> list[dict[str, Any]]:
    keys = [("day", "ascending"), ("id", "ascending")]
    rows: list[dict[str, Any]] = table.read(options=options).sort_by(keys).to_pylist()
    return rows


def _compacted(table: PaimonTable) -> list[dict[str, Any]]:
    """What a reader sees that looks at levels from 1 up only."""
    return _content(table, **{"deletion-vectors.merge-on-read": "false"})


def _all_named(table: PaimonTable) -> set[str]:
    """The data files of all snapshots."""
    ids = [snapshot.id for snapshot in table.snapshots()]
    paths = [path for i in ids for path in table.files({"scan.snapshot-id": str(i)})["file_path"].to_pylist()]
    return {path.rsplit("/", 1)[1] for path in paths}


def _executors(spark: Any, table: PaimonTable, full: bool = False, storage: LocalStorage | None = None) -> _Executors:
    opened = PaimonTable.open(table.path, {DATA_FILE_PREFIX.key: unique_prefix(table.options)})
    metadata = opened.metadata if storage is None else TableMetadata(storage, table.path)
    return replace(_Executors.of(spark, opened, full), metadata=metadata)


def _compact(table: PaimonTable, executors: _Executors) -> Snapshot | None:
    """As a job does that was given these executors."""
    try:
        return table.compact(full=True, compactor=executors, user=executors.user)
    finally:
        executors.delete_leftovers()


def test_one_snapshot_for_all_buckets(spark: Any, table: PaimonTable, caplog: pytest.LogCaptureFixture) -> None:
    before = _content(table)
    with caplog.at_level(logging.INFO, "paimon_spark"):
        snapshot = paimon_spark.compact(spark, table.path)
    assert snapshot is not None
    assert (snapshot.id, snapshot.commit_kind) == (7, "COMPACT")
    assert _content(table) == _compacted(table) == before
    assert table.check() == []
    assert data_files(table.path) == _all_named(table)
    told = [record.getMessage() for record in caplog.records if record.name == "paimon_spark"]
    mine = [text.removeprefix(f"{table.path}: ") for text in told if text.startswith(table.path)]
    assert mine == ["compacting 6 buckets", *(f"{n} of 6 buckets compacted" for n in range(1, 7))]
    assert paimon_spark.compact(spark, table.path) is None


def test_lookup_files_lie_in_the_local_directory_of_the_executor(spark: Any, table: PaimonTable) -> None:
    table.compact()
    table.append(pa.table([["mon"], [7], [7]], schema=SCHEMA))
    paimon_spark.compact(spark, table.path)
    (told,) = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ["SPARK_LOCAL_DIRS"]).collect()
    assert list(Path(told.split(",")[0]).glob(f"paimon-lookup-{os.getuid()}/*/data"))
    assert table.check() == []
    assert table.read(filters=[("id", "=", 7), ("day", "=", "mon")])["v"].to_pylist() == [7]


def test_some_partitions_in_full(spark: Any, table: PaimonTable) -> None:
    table.compact()
    table.append(pa.table([["mon", "tue"], [1, 1], [0, 0]], schema=SCHEMA))
    before = _content(table)
    assert paimon_spark.compact(spark, table.path, full=True, partitions=[{"day": "tue"}]) is not None
    levels = {(row["partition"], row["level"]) for row in table.levels().to_pylist()}
    assert {level for day, level in levels if "tue" in day} == {5}
    assert 0 in {level for day, level in levels if "mon" in day}
    assert _content(table) == before
    assert table.check() == []
    with pytest.raises(InvalidInput, match="'hour' is not a partition column"):
        paimon_spark.compact(spark, table.path, partitions=[{"hour": 3}])


def test_a_job_whose_buckets_are_compacted_meanwhile_keeps_the_others(spark: Any, table: PaimonTable) -> None:
    """Somebody else compacts a partition and writes to the other while the job runs; the job finds out at its commit,
    keeps what it made of the untouched buckets and does nothing twice."""
    executors = _executors(spark, table, full=True)
    rounds: list[int] = []

    def interrupted(states: Sequence[BucketState]) -> Iterable[CompactionResult | None]:
        results = list(executors(states))
        if not rounds:
            table.compact(full=True, partitions=[{"day": "mon"}])
            table.append(pa.table([["mon", "tue"], [3, 3], [-1, -1]], schema=SCHEMA))
        rounds.append(len(states))
        return results

    snapshot = PaimonTable.open(table.path).compact(full=True, compactor=interrupted)
    assert snapshot is not None
    assert rounds == [6, 1]  # the second time only the bucket of mon that has got a row since
    assert [row["v"] for row in _content(table) if row["id"] == 3] == [-1, -1]
    assert len(_content(table)) == 2 * ROWS
    assert table.check(all_snapshots=True) == []
    assert data_files(table.path) == _all_named(table)


class _DiesAtFirst(LocalStorage):
    """The storage of a worker that is killed in its first attempt, right after it has begun a data file."""

    def create(self, path: str) -> Any:
        """As always, but then no more."""
        made = super().create(path)
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            made.write(b"half a file")
            made.close()
            os._exit(1)
        return made


def test_a_killed_attempt_leaves_no_file(spark: Any, table: PaimonTable) -> None:
    before = _content(table)
    executors = _executors(spark, table, full=True, storage=_DiesAtFirst())
    assert _compact(table, executors) is not None
    assert _content(table) == before
    assert table.check() == []
    assert data_files(table.path) == _all_named(table)


def test_a_damaged_file_fails_the_job_and_leaves_nothing(spark: Any, table: PaimonTable) -> None:
    damaged = Path(table.files()["file_path"][0].as_py())
    damaged.write_bytes(damaged.read_bytes()[:-20])
    before = data_files(table.path)
    with pytest.raises(CorruptFile, match=damaged.name):
        paimon_spark.compact(spark, table.path)
    assert data_files(table.path) == before
    assert len(table.snapshots()) == 6


def test_an_attempt_that_outlives_its_job_deletes_its_files(spark: Any, table: PaimonTable) -> None:
    executors = _executors(spark, table, full=True)
    states = bucket_states(table.metadata, table.metadata.snapshots.latest(), lambda partition, bucket: bucket == 0)
    assert _compact(table, executors) is not None
    list(executors(list(states.values())))  # the tasks of two buckets once more
    assert data_files(table.path) == _all_named(table)
    assert table.check() == []


class _NeverWrites(LocalStorage):
    """A storage that no task can write to."""

    def create(self, path: str) -> Any:
        """Never."""
        raise OSError(28, "No space left on device")


def test_a_task_that_never_succeeds_fails_the_job(spark: Any, table: PaimonTable) -> None:
    executors = _executors(spark, table, full=True, storage=_NeverWrites())
    before = data_files(table.path)
    with pytest.raises(PaimonError, match="No space left") as caught:
        _compact(table, executors)
    assert "\tat org.apache" not in str(caught.value)
    assert data_files(table.path) == before


def test_other_sessions_are_refused(table: PaimonTable) -> None:
    with pytest.raises(UnsupportedFeature, match="spark-submit"):
        paimon_spark.compact(object(), table.path)  # type: ignore[arg-type]


def _submit(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "JAVA_HOME": os.environ.get("JAVA_HOME") or str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(REPO),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(REPO / "conf"),
    }
    submit = str(Path(sys.executable).with_name("spark-submit"))
    command = [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false", "--driver-memory", "512m"]
    command += ["--driver-java-options", " ".join(QUICK_JVM)]
    program = [*command, str(REPO / "examples" / "compact_job.py"), *arguments]
    return subprocess.run(
        program, capture_output=True, text=True, check=False, env=environment, timeout=LONGEST_RUN_SECONDS
    )


@newest_only
def test_submitted(table: PaimonTable) -> None:
    """spark-submit passes the standard error of a Python program on as standard output."""
    done = _submit(table.path, "--full", "--partition", "day=mon")
    assert done.returncode == 0, done.stderr
    assert "3 of 3 buckets compacted\nsnapshot 7\n" in done.stdout
    assert table.check() == []
    failed = _submit(table.path + "x")
    assert failed.returncode == 1
    assert failed.stdout.startswith("paimon_spark: there is no Paimon table")
    assert failed.stdout.count("\n") == 1
