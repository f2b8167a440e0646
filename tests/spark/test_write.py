"""Writing a DataFrame: creating tables, upserts, partial rows, overwrites, and what is refused before any file."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_spark import PaimonTable
from tests.spark.frames import (
    KEYED,
    PARTITIONED,
    assert_readable,
    assert_rows,
    data_files,
    failure,
    load,
    rows,
    write,
)


def test_the_first_write_creates_the_table_and_the_next_ones_upsert(spark: Any, path: str) -> None:
    write(spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, v string"), path, **KEYED)
    write(spark.createDataFrame([(2, "B"), (3, "c")], "id bigint, v string"), path)
    assert_rows(load(spark, path), spark.createDataFrame([(1, "a"), (2, "B"), (3, "c")], "id bigint, v string"))
    table = PaimonTable.open(path)
    assert table.options["bucket"] == "2"
    assert table.table_schema.primary_keys == ("id",)
    assert [f.type.nullable for f in table.table_schema.fields] == [False, True]
    assert len(table.snapshots()) == 2


def test_columns_are_matched_by_name(spark: Any, path: str) -> None:
    write(spark.createDataFrame([(1, "a", "x")], "id bigint, v string, w string"), path, **KEYED)
    write(spark.createDataFrame([("y", 2, "b")], "w string, id bigint, v string"), path)
    assert rows(load(spark, path)) == [(1, "a", "x"), (2, "b", "y")]


def test_feeds_of_a_partial_update_table_know_some_columns(spark: Any, path: str) -> None:
    columns = "id bigint, paid double, pay_seq int, place string, move_seq int"
    options = {
        **KEYED,
        "merge-engine": "partial-update",
        "fields.pay_seq.sequence-group": "paid",
        "fields.move_seq.sequence-group": "place",
    }
    write(spark.createDataFrame([(1, 9.5, 2, None, None)], columns), path, **options)
    write(spark.createDataFrame([(1, "dock", 5), (2, "sea", 1)], "id bigint, place string, move_seq int"), path)
    write(spark.createDataFrame([(1, 1.0, 1), (2, 3.0, 1)], "id bigint, paid double, pay_seq int"), path)
    assert rows(load(spark, path)) == [(1, 9.5, 2, "dock", 5), (2, 3.0, 1, "sea", 1)]


def test_columns_in_option_names_keep_their_case(spark: Any, path: str) -> None:
    options = {**KEYED, "merge-engine": "partial-update", "fields.Seq.sequence-group": "Total"}
    write(spark.createDataFrame([(1, 10, 2)], "id bigint, Total int, Seq int"), path, **options)
    write(spark.createDataFrame([(1, 99, 1)], "id bigint, Total int, Seq int"), path)
    assert rows(load(spark, path)) == [(1, 10, 2)]
    assert PaimonTable.open(path).options["fields.Seq.sequence-group"] == "Total"


def test_many_tasks_are_one_snapshot(spark: Any, path: str) -> None:
    write(spark.range(0, 1000, 1, 7).selectExpr("id", "id * 2 AS v"), path, **KEYED, **{"write-only": "true"})
    df = load(spark, path)
    assert df.selectExpr("count(*)", "sum(id)", "sum(v)").collect() == [(1000, 499500, 999000)]
    assert len(PaimonTable.open(path).snapshots()) == 1


def test_an_empty_dataframe_writes_nothing(spark: Any, path: str) -> None:
    nothing = spark.createDataFrame([], "id bigint, v string")
    write(nothing, path, **KEYED)
    assert load(spark, path).count() == 0
    assert PaimonTable.open(path).snapshots() == []
    write(spark.createDataFrame([(1, "a")], "id bigint, v string"), path)
    write(nothing, path)
    assert len(PaimonTable.open(path).snapshots()) == 1


def test_overwrite_replaces_the_table(spark: Any, path: str) -> None:
    write(spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, v string"), path, **KEYED)
    write(spark.createDataFrame([(3, "c")], "id bigint, v string"), path, "overwrite")
    assert rows(load(spark, path)) == [(3, "c")]
    write(spark.createDataFrame([], "id bigint, v string"), path, "overwrite")
    assert load(spark, path).count() == 0


DAYS = [("mon", 1, "a"), ("mon", 2, "b"), ("tue", 1, "c")]
DAY_COLUMNS = "day string, id bigint, v string"


@pytest.mark.parametrize("dynamic", [{"partitionOverwriteMode": "dynamic"}, {"dynamic-partition-overwrite": "true"}])
def test_a_dynamic_overwrite_replaces_the_partitions_it_has_rows_for(
    spark: Any, path: str, dynamic: dict[str, str]
) -> None:
    write(spark.createDataFrame(DAYS, DAY_COLUMNS), path, **PARTITIONED)
    write(spark.createDataFrame([("mon", 9, "z")], DAY_COLUMNS), path, "overwrite", **dynamic)
    assert rows(load(spark, path)) == [("mon", 9, "z"), ("tue", 1, "c")]
    assert rows(load(spark, path, filters='[["day", "=", "tue"]]')) == [("tue", 1, "c")]


def test_a_static_overwrite_replaces_all_partitions(spark: Any, path: str) -> None:
    write(spark.createDataFrame(DAYS, DAY_COLUMNS), path, **PARTITIONED)
    write(spark.createDataFrame([("mon", 9, "z")], DAY_COLUMNS), path, "overwrite")
    assert rows(load(spark, path)) == [("mon", 9, "z")]


def test_options_of_one_write_are_not_kept(spark: Any, path: str) -> None:
    df = spark.createDataFrame([(1, "a")], "id bigint, v string")
    write(df, path, **KEYED, mergeSchema="true", columns="id")
    write(df, path, **{"file.compression": "lz4", "scan.snapshot-id": "1", "BUCKET": "2", "primary-key": "id"})
    kept = PaimonTable.open(path).options
    assert not {"file.compression", "data-file.prefix"} & set(kept)
    assert not {"path", "columns", "mergeschema", "scan.snapshot-id"} & set(kept)
    assert len(PaimonTable.open(path).snapshots()) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no Paimon table at .*option 'primary-key'"),
        ({"primary-key": "nope"}, "nope"),
        ({"primary-key": "id", "merge-engine": "magic"}, "merge-engine.*magic"),
        ({"primary-key": "id", "bucket": "many"}, "bucket.*many"),
        ({"primary-key": "id", "partition": "v"}, "partition.*v"),
        ({"primary-key": "id", "replaceWhere": "v = 1"}, "replacewhere.*not supported"),
    ],
)
def test_a_definition_that_contradicts_itself_creates_nothing(
    spark: Any, path: str, options: dict[str, str], message: str
) -> None:
    df = spark.createDataFrame([(1, "a")], "id bigint, v string")
    assert_readable(failure(lambda: write(df, path, **options)), message)
    assert not PaimonTable.exists(path)


@pytest.mark.parametrize("options", [{"bucket": "4"}, {"primary-key": "v"}, {"merge-engine": "partial-update"}])
def test_what_a_table_cannot_change_is_refused(spark: Any, path: str, options: dict[str, str]) -> None:
    df = spark.createDataFrame([(1, "a")], "id bigint, v string")
    write(df, path, **KEYED)
    (key,) = options
    assert_readable(failure(lambda: write(df, path, **options)), key)
    assert len(PaimonTable.open(path).snapshots()) == 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 'a' AS v", "primary-key column 'id' is missing"),
        ("SELECT 1L AS id, 2 AS nope", "column 'nope' does not exist"),
        ("SELECT 'one' AS id", "column 'id' is string"),
        ("SELECT 1L AS id, current_timestamp() AS v", "column 'v' is timestamp"),
        ("SELECT 1L AS id, INTERVAL 1 DAY AS v", "column v: .*interval day"),
        ("SELECT 1L AS id, NULL AS v", "column v: .*void"),
    ],
)
def test_data_that_can_never_fit_is_refused_before_any_file(spark: Any, path: str, query: str, message: str) -> None:
    write(spark.createDataFrame([(1, "a")], "id bigint, v string"), path, **KEYED)
    before = data_files(path)
    assert_readable(failure(lambda: write(spark.sql(query), path)), message)
    assert data_files(path) == before


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT CAST(NULL AS BIGINT) AS id, 1 AS v", "column 'id' .*1 null"),
        ("SELECT 1L AS id, 5000000000L AS v", "column 'v'.*5000000000"),
    ],
)
def test_values_that_do_not_fit_leave_nothing_behind(spark: Any, path: str, query: str, message: str) -> None:
    write(spark.createDataFrame([(1, 1)], "id bigint, v int"), path, **KEYED)
    before = data_files(path)
    text = failure(lambda: write(spark.sql(query), path))
    assert "Traceback" not in text
    assert_readable(text[text.index("paimon_spark.errors") :], message)
    assert data_files(path) == before
    assert len(PaimonTable.open(path).snapshots()) == 1


def test_a_save_mode_is_needed(spark: Any, path: str) -> None:
    df = spark.createDataFrame([(1, "a")], "id bigint, v string")
    assert "append" in failure(lambda: df.write.format("paimon-py").options(**KEYED).save(path)).lower()


def test_warehouse_and_table(spark: Any, tmp_path: Any) -> None:
    df = spark.createDataFrame([(1, "a")], "id bigint, v string")
    place = {"warehouse": str(tmp_path), "table": "shop.orders"}
    df.write.format("paimon-py").mode("append").options(**KEYED, **place).save()
    assert rows(load(spark, f"{tmp_path}/shop.db/orders")) == [(1, "a")]


def test_a_table_that_another_program_made(spark: Any, path: str) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int32()), ("day", pa.date32()), ("at", pa.time32("ms")), ("ms", pa.timestamp("ms"))]
    )
    PaimonTable.create(path, schema, ["id"])
    query = "SELECT 1 AS id, DATE'2024-02-29' AS day, 3723004 AS at, TIMESTAMP_NTZ'2024-01-01 01:02:03.456789' AS ms"
    write(spark.sql(query), path)
    read = load(spark, path)
    assert read.schema.simpleString() == "struct<id:int,day:date,at:int,ms:timestamp_ntz>"
    assert read.selectExpr("day", "at", "string(ms)").collect() == [
        (read.first().day, 3723004, "2024-01-01 01:02:03.456")
    ]
