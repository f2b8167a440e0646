"""Files of a native scan that vanish while its DataFrame is in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.errors import NotFound
from paimon_spark.spark import native_expiry

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("p", pa.string())])
EXPIRED = r"snapshot 1 of the table .* has expired .*load the table again.*tag it.*\(file /.*parquet does not exist\)"

ACTIONS: dict[str, Callable[[Any, Path], object]] = {
    "collect": lambda df, _: df.collect(),
    "aggregate": lambda df, _: df.groupBy("p").max("id").collect(),
    "join": lambda df, _: df.join(df.withColumnRenamed("p", "q"), "id").collect(),
    "take": lambda df, _: df.take(1),
    "show": lambda df, _: df.show(),
    "iterator": lambda df, _: list(df.toLocalIterator()),
    "pandas": lambda df, _: df.toPandas(),
    "arrow": lambda df, _: df.toArrow(),
    "python": lambda df, _: df.rdd.map(tuple).collect(),
    "write": lambda df, to: df.write.parquet(str(to / "copy")),
    "paimon": lambda df, to: df.write.format("paimon-py").mode("append").save(str(to / "other")),
}


def _overwritten(path: str, first: pa.Table, **options: str) -> PaimonTable:
    """A table, the rows of whose only snapshot need no merging."""
    table = PaimonTable.create(path, COLUMNS, ["id", "p"], ["p"], options={"bucket": "1", **options})
    table.overwrite(first)
    return table


def _rows(count: int) -> pa.Table:
    return pa.table({"id": list(range(count)), "p": ["a b%ü"] * count}, COLUMNS)


def _expire(table: PaimonTable) -> None:
    table.overwrite(_rows(3))
    assert table.expire_snapshots(1, 1) == 1


@pytest.fixture(scope="module")
def expired(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A DataFrame of a snapshot that has expired, in a directory whose name Spark escapes."""
    table = _overwritten(str(tmp_path_factory.mktemp("lake") / "a table#1 ü"), _rows(50))
    df = paimon_spark.read(spark, table.path)
    assert df.count() == 50
    _expire(table)
    return df


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_says_that_the_snapshot_has_expired(expired: Any, action: str, tmp_path: Path) -> None:
    PaimonTable.create(str(tmp_path / "other"), COLUMNS, ["id"])
    with pytest.raises(NotFound, match=EXPIRED):
        ACTIONS[action](expired, tmp_path)


def test_of_two_scans_the_one_whose_snapshot_is_gone_is_named(spark: Any, path: str) -> None:
    table = _overwritten(path, _rows(50))
    old = paimon_spark.read(spark, path)
    _expire(table)
    assert paimon_spark.read(spark, path).count() == 3
    with pytest.raises(NotFound, match=EXPIRED):
        old.collect()


def test_a_file_that_is_gone_without_an_expiry(spark: Any, path: str) -> None:
    _overwritten(path, _rows(50))
    df = paimon_spark.read(spark, path)
    for file in Path(path).rglob("data-*"):
        file.unlink()
    with pytest.raises(NotFound, match=r"a file of snapshot 1 of the table .* is gone, although the snapshot is there"):
        df.collect()


def test_other_missing_files_and_other_errors_stay_sparks(spark: Any, path: str, tmp_path: Path) -> None:
    _overwritten(path, _rows(50))
    paimon_spark.read(spark, path)
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "plain"))
    plain = spark.read.parquet(str(tmp_path / "plain"))
    for file in (tmp_path / "plain").glob("*.parquet"):
        file.unlink()
    with pytest.raises((PySparkException, Py4JJavaError), match=r"FAILED_READ_FILE\.FILE_NOT_EXIST"):
        plain.collect()
    with pytest.raises(PySparkException, match="nope"):
        plain.select("nope")


def test_scans_are_remembered_within_a_bound(spark: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_expiry, "_scans", type(native_expiry._scans)(maxlen=2))
    table = _overwritten(path, _rows(50))
    old = paimon_spark.read(spark, path)
    _expire(table)
    for _ in range(2):
        paimon_spark.read(spark, path)
    with pytest.raises((PySparkException, Py4JJavaError), match=r"FAILED_READ_FILE\.FILE_NOT_EXIST"):
        old.collect()
