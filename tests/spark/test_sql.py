"""SQL, and how Spark finds the source."""

from __future__ import annotations

from typing import Any

import paimon_spark
from tests.spark.frames import KEYED, assert_readable, failure, load, rows, write


def test_a_view_is_read_and_inserted_into(spark: Any, path: str) -> None:
    write(spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, v string"), path, **KEYED)
    spark.sql(f"CREATE OR REPLACE TEMP VIEW notes USING `paimon-py` OPTIONS (path '{path}')")
    assert rows(spark.sql("SELECT v, id FROM notes WHERE id > 1")) == [("b", 2)]
    spark.sql("INSERT INTO notes VALUES (2, 'B'), (3, 'c')")
    spark.sql("INSERT INTO notes (v, id) SELECT upper(v), id + 10 FROM notes")
    assert rows(load(spark, path)) == [(1, "a"), (2, "B"), (3, "c"), (11, "A"), (12, "B")]


def test_a_view_with_columns_and_time_travel(spark: Any, path: str) -> None:
    write(spark.createDataFrame([(1, "a")], "id bigint, v string"), path, **KEYED)
    write(spark.createDataFrame([(2, "b")], "id bigint, v string"), path)
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW early USING `paimon-py` "
        f"OPTIONS (path '{path}', columns 'v', `scan.snapshot-id` '1')"
    )
    assert rows(spark.table("early")) == [("a",)]


def test_a_view_of_no_table(spark: Any, path: str) -> None:
    statement = f"CREATE TEMP VIEW nothing USING `paimon-py` OPTIONS (path '{path}')"
    assert_readable(failure(lambda: spark.sql(statement)), "there is no Paimon table")


def test_register_may_be_called_again_and_after_spark_found_the_source(spark: Any, path: str) -> None:
    write(spark.createDataFrame([(1, "a")], "id bigint, v string"), path, **KEYED)
    paimon_spark.register(spark)
    paimon_spark.register(spark)
    assert rows(load(spark, path)) == [(1, "a")]
