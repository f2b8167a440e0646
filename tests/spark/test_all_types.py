"""Every type that a DataFrame and a Paimon table share survives the way through the table and back."""

from __future__ import annotations

import json
from pathlib import Path
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


JAVA_VIEW = [
    "ki",
    "ks",
    "string(p_dt)",
    "f_bool",
    "string(f_dec38)",
    "f_char",
    "lower(hex(f_bin))",
    "f_time",
    "date_format(f_ts3, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")",
    "date_format(f_ts9, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")",
    "date_format(to_utc_timestamp(f_ltz, 'America/New_York'), \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")",
    "f_arr",
    "map_entries(f_map)",
    "f_row",
    "transform(f_nest, r -> map_entries(r.m))",
]


def test_all_types_of_a_table_that_java_wrote(spark: Any, golden: Path) -> None:
    case = golden / "java-2.0" / "all_types_parquet"
    step = json.loads((case / "expected.jsonl").read_text().splitlines()[-1])
    df = load(spark, None, warehouse=f"file:{case}/warehouse", table="default.t")
    read = sorted(json.dumps(row, ensure_ascii=False) for row in df.selectExpr(*JAVA_VIEW).collect())
    assert read == sorted(json.dumps(_seen_by_java(step, row), ensure_ascii=False) for row in step["rows"])


def _seen_by_java(step: dict[str, Any], values: list[Any]) -> list[Any]:
    """Java's row, with the columns of ``JAVA_VIEW`` and timestamps of microseconds."""
    row = dict(zip(step["columns"], values, strict=True))
    for name in ("f_ts3", "f_ts9", "f_ltz"):
        row[name] = row[name] and row[name][: len("2024-01-02T03:04:00.000000")]
    nested = row["f_nest"]
    row["f_nest"] = nested and [member[0] for member in nested]
    names = "ki ks p_dt f_bool f_dec38 f_char f_bin f_time f_ts3 f_ts9 f_ltz f_arr f_map f_row f_nest"
    return [row[name] for name in names.split()]
