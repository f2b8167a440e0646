"""One DataFrame or view, used twice with different filters, gives right rows: with Spark's Python filter push-down
on as well as off. A source that implements that push-down returns wrong rows for each of these queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark import PaimonTable
from tests.spark.frames import load

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["true", "false"])
def pushdown(spark: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.conf.set(PUSHDOWN, request.param)
    yield request.param
    spark.conf.unset(PUSHDOWN)


@pytest.fixture
def df(spark: Any, path: str, pushdown: str) -> Any:
    """Ids 0 to 9."""
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    table = PaimonTable.create(path, schema, ["id"], options={"bucket": "2"})
    table.append(pa.table({"id": range(10), "v": range(10)}, schema))
    return load(spark, path)


def test_two_filters_one_after_the_other(df: Any) -> None:
    assert df.filter("id > 7").count() == 2
    assert df.count() == 10
    assert df.filter("id < 3").count() == 3


def test_unions_of_filtered_branches(df: Any) -> None:
    assert df.filter("id < 2").union(df.filter("id > 6")).count() == 5
    assert df.filter("id < 2").union(df).count() == 12


def test_self_join_of_filtered_branches(df: Any) -> None:
    low, high = df.filter("id < 6"), df.filter("id > 3")
    assert sorted(row.id for row in low.join(high, "id").select("id").collect()) == [4, 5]


def test_a_view(spark: Any, df: Any) -> None:
    df.createOrReplaceTempView("twice")
    assert spark.sql("SELECT count(*) FROM twice WHERE id = 3").collect() == [(1,)]
    assert spark.sql("SELECT count(*) FROM twice").collect() == [(10,)]
    subquery = "SELECT count(*) FROM twice WHERE id IN (SELECT id FROM twice WHERE v > 7)"
    assert spark.sql(subquery).collect() == [(2,)]
