"""Reading a table as a DataFrame: what is chosen, and which snapshot is seen."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import PaimonTable
from tests.spark.frames import assert_readable, assert_rows, failure, load, rows

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int32()), ("name", pa.string())])


@pytest.fixture
def table(path: str) -> PaimonTable:
    """Ids 0 to 9 in two commits; v = 10 * id, name = "n<id>"."""
    made = PaimonTable.create(path, COLUMNS, ["id"], options={"bucket": "2"})
    for ids in (range(6), range(6, 10)):
        made.append(_rows(ids))
    return made


def _rows(ids: range) -> pa.Table:
    return pa.table({"id": list(ids), "v": [10 * i for i in ids], "name": [f"n{i}" for i in ids]}, COLUMNS)


def test_all_rows_and_columns(spark: Any, table: PaimonTable) -> None:
    df = load(spark, table.path)
    assert df.schema.simpleString() == "struct<id:bigint,v:int,name:string>"
    assert [f.nullable for f in df.schema.fields] == [False, True, True]
    assert_rows(df, spark.createDataFrame([(i, 10 * i, f"n{i}") for i in range(10)], "id bigint, v int, name string"))
    assert df.count() == 10
    assert df.where("v > 50").select("id").orderBy("id").collect() == [(6,), (7,), (8,), (9,)]


def test_columns_and_filters_reach_the_source(spark: Any, table: PaimonTable) -> None:
    df = load(spark, table.path, columns="name,id", filters='[["id", "<", 2]]')
    assert df.columns == ["name", "id"]
    assert rows(df) == [("n0", 0), ("n1", 1)]


def test_a_schema_projects(spark: Any, table: PaimonTable) -> None:
    df = spark.read.schema("v INT, id BIGINT").format("paimon-py").load(table.path)
    assert rows(df) == [(10 * i, i) for i in range(10)]
    assert spark.read.schema("name STRING").format("paimon-py").load(table.path).count() == 10


def test_a_schema_that_is_not_the_tables_is_refused(spark: Any, table: PaimonTable) -> None:
    unknown = spark.read.schema("w INT").format("paimon-py").load(table.path)
    assert_readable(failure(unknown.collect), "'w' of the given schema does not exist")
    narrowed = spark.read.schema("id INT").format("paimon-py").load(table.path)
    assert_readable(failure(narrowed.collect), "column id is bigint in the table, but the given schema says int")


def test_read_takes_python_values(spark: Any, path: str) -> None:
    schema = pa.schema(
        [("id", pa.int32()), ("day", pa.date32()), ("price", pa.decimal128(8, 2)), ("at", pa.timestamp("us"))]
    )
    values = [(i, dt.date(2024, 1, i), Decimal(i) / 4, dt.datetime(2024, 1, i, 12)) for i in range(1, 6)]
    table = PaimonTable.create(path, schema, ["id"])
    table.append(pa.Table.from_pylist([dict(zip(schema.names, v, strict=True)) for v in values], schema))

    def ids(filters: Any) -> list[int]:
        return sorted(row.id for row in paimon_spark.read(spark, path, ["id"], filters).collect())

    assert ids([("day", ">", dt.date(2024, 1, 3))]) == [4, 5]
    assert ids([("price", "in", [Decimal("0.50"), Decimal("0.75")])]) == [2, 3]
    assert ids([[("at", "<=", dt.datetime(2024, 1, 1, 12))], [("id", "=", 5)]]) == [1, 5]
    earlier = paimon_spark.read(spark, path, filters=[("id", "=", 1)], **{"scan.snapshot-id": "1"})
    assert rows(earlier) == values[:1]


def test_time_travel(spark: Any, table: PaimonTable) -> None:
    assert load(spark, table.path, **{"scan.snapshot-id": "1"}).count() == 6
    assert load(spark, table.path, **{"SCAN.Snapshot-Id": "2"}).count() == 10
    first = table.snapshots()[0]
    assert load(spark, table.path, **{"scan.timestamp-millis": str(first.time_millis)}).count() == 6
    assert_readable(failure(lambda: load(spark, table.path, **{"scan.snapshot-id": "7"})), "snapshot.*7")


def test_warehouse_and_table(spark: Any, tmp_path: Path) -> None:
    PaimonTable.create(f"{tmp_path}/shop.db/orders", COLUMNS, ["id"]).append(_rows(range(3)))
    df = spark.read.format("paimon-py").option("warehouse", str(tmp_path)).option("table", "shop.orders").load()
    assert df.count() == 3


def test_an_empty_table_has_columns_and_no_rows(spark: Any, path: str) -> None:
    PaimonTable.create(path, COLUMNS, ["id"])
    df = load(spark, path)
    assert df.collect() == []
    assert df.columns == ["id", "v", "name"]
    assert df.groupBy().count().collect() == [(0,)]


def test_a_filter_that_nothing_satisfies(spark: Any, table: PaimonTable) -> None:
    assert load(spark, table.path, filters='[["id", ">", 1000]]').count() == 0


def test_a_dataframe_reads_the_snapshot_that_was_newest_at_load(spark: Any, table: PaimonTable) -> None:
    df = load(spark, table.path)
    table.append(_rows(range(10, 12)))
    assert df.count() == 10
    assert df.join(df.withColumnRenamed("v", "w"), "id").count() == 10
    assert load(spark, table.path).count() == 12


def test_a_snapshot_that_expired_says_reload(spark: Any, table: PaimonTable) -> None:
    df = load(spark, table.path)
    table.overwrite(_rows(range(3)))
    assert table.expire_snapshots(1, 1) == 2
    assert_readable(failure(df.collect), r"snapshot 2 of the table .* has expired .*load the table again.* tag it")
    assert load(spark, table.path).count() == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "id,nope"}, "column 'nope' does not exist; the columns are id, v, name"),
        ({"columns": "id,id"}, "different column names"),
        ({"columns": "[]"}, "no column is selected"),
        ({"filters": "[["}, "filters are not valid JSON"),
        ({"filters": '[["nope", "=", 1]]'}, "column 'nope' does not exist"),
        ({"filters": '[["v", "=", "x"]]'}, "'x' does not fit column v"),
        ({"scan.snapshot-id": "x"}, "scan.snapshot-id.*whole number"),
    ],
)
def test_wrong_options_are_one_readable_message(
    spark: Any, table: PaimonTable, options: dict[str, str], message: str
) -> None:
    assert_readable(failure(lambda: load(spark, table.path, **options)), message)


def test_no_table_and_several_paths(spark: Any, path: str) -> None:
    assert_readable(failure(lambda: load(spark, path)), f"there is no Paimon table at {path}")
    both = lambda: spark.read.format("paimon-py").load([path, path])  # noqa: E731
    assert_readable(failure(both), "one path is expected, not 2")
