"""Spark reads and writes a table on S3, and shows nobody its credentials."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.frames import assert_rows, failure, load, write
from tests.storage.moto_server import MotoServer


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    server = MotoServer()
    yield server.options
    server.stop()


def test_a_table_on_s3(spark: Any, options: dict[str, str]) -> None:
    path = "s3a://bucket/warehouse/orders"
    keyed = {"primary-key": "id", "bucket": "2", "merge-engine": "partial-update", **options}
    write(spark.range(0, 100, 1, 2).selectExpr("id", "id * 2 AS a", "CAST(NULL AS STRING) AS b"), path, **keyed)
    write(spark.range(50, 150, 1, 2).selectExpr("id", "CAST(id AS STRING) AS b"), path, **options)
    expected = spark.range(150).selectExpr(
        "id", "IF(id < 100, id * 2, NULL) AS a", "IF(id >= 50, CAST(id AS STRING), NULL) AS b"
    )
    df = load(spark, path, **options)
    assert_rows(df, expected)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        df.explain(True)
    assert "CANARY" not in printed.getvalue()
    assert "CANARY" not in failure(lambda: load(spark, path + "-missing", **options))
    assert "CANARY" not in failure(lambda: load(spark, path, **{**options, "columns": "missing"}))
