"""Every type that a DataFrame and a Paimon table share survives the way through the table and back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from paimon_spark import PaimonTable
from tests.spark.frames import KEYED, assert_rows, load, write

EVERYTHING = """
SELECT 1L AS id, true AS b, 1Y AS i8, 2S AS i16, 3 AS i32, 4L AS i64, 1.5F AS f, -0.0D AS d, 12345.678BD AS dec,
  CAST('-99999999999999999999.000000000000000001' AS DECIMAL(38, 18)) AS wide, 'Zoë 🙂' AS s, X'00FF' AS bin,
  DATE'1582-10-15' AS day, TIMESTAMP'2024-03-10 02:30:00.123456 UTC' AS at,
  TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' AS local, array(1, NULL, 3) AS a,
  map('k', TIMESTAMP'2024-07-01 12:00:00 America/New_York', 'n', NULL) AS m,
  named_struct('x', array(named_struct('y', DATE'2024-01-01', 'z', CAST(NULL AS STRING))), 'w', map(1, 2.5D)) AS n
UNION ALL
SELECT 2L, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL
SELECT 3L, false, -128Y, -32768S, -2147483648, -9223372036854775808L, FLOAT('NaN'), DOUBLE('Infinity'), -0.001BD, 0, '',
  X'', DATE'9999-12-31', TIMESTAMP'1900-01-01 00:00:00 UTC', TIMESTAMP_NTZ'2024-11-03 01:30:00', array(), map(),
  named_struct('x', NULL, 'w', NULL)
"""


def test_all_types_round_trip(spark: Any, path: str) -> None:
    df = spark.sql(EVERYTHING)
    write(df, path, **KEYED)
    read = load(spark, path)
    assert [(f.name, f.dataType.simpleString()) for f in read.schema] == [
        (f.name, f.dataType.simpleString()) for f in df.schema
    ]
    # Maps do not compare in Spark; their JSON does.
    maps = {"m": "to_json(m)", "n": "to_json(n)"}
    columns = [f"{maps.get(name, name)} AS {name}" for name in df.columns]
    assert_rows(read.selectExpr(*columns), df.selectExpr(*columns))
    instant = PaimonTable.open(path).read(["at"], [("id", "=", 1)]).column("at")
    assert instant.type == pa.timestamp("us", "UTC")
    assert instant[0].as_py().isoformat() == "2024-03-10T02:30:00.123456+00:00"


def test_timestamps_as_keys_and_partitions(spark: Any, path: str) -> None:
    df = spark.sql("SELECT TIMESTAMP'2024-03-10 02:30:00 UTC' AS at, DATE'2024-03-09' AS day, 'x' AS v")
    write(df, path, **{"primary-key": "at,day", "partition": "day", "bucket": "2"})
    write(df.selectExpr("at", "day", "'y' AS v"), path)
    assert_rows(load(spark, path), df.selectExpr("at", "day", "'y' AS v"))
