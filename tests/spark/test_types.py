"""Columns of a table as Spark types, and of a DataFrame as a new table's columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.spark.types import requested_columns, spark_schema, spark_type, written_schema
from paimon_spark.types import DataField, parse_type

SPARK_OF_PAIMON = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL(20, 3)": "decimal(20,3)",
    "CHAR(3)": "string",
    "VARCHAR(10)": "string",
    "STRING": "string",
    "BINARY(4)": "binary",
    "BYTES": "binary",
    "DATE": "date",
    "TIME(0)": "int",
    "TIMESTAMP(3)": "timestamp_ntz",
    "TIMESTAMP(9)": "timestamp_ntz",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": "timestamp",
}


@pytest.mark.parametrize(("paimon", "expected"), SPARK_OF_PAIMON.items())
def test_atomic_types(paimon: str, expected: str) -> None:
    assert spark_type(parse_type(paimon)).simpleString() == expected


def test_nested_types_keep_nullability() -> None:
    array = parse_type({"type": "ARRAY", "element": "INT NOT NULL"})
    assert spark_type(array) == spark.ArrayType(spark.IntegerType(), False)
    counts = parse_type({"type": "MULTISET", "element": "STRING"})
    assert spark_type(counts) == spark.MapType(spark.StringType(), spark.IntegerType(), False)
    map_ = parse_type({"type": "MAP", "key": "INT NOT NULL", "value": {"type": "ARRAY", "element": "DATE"}})
    assert spark_type(map_) == spark.MapType(spark.IntegerType(), spark.ArrayType(spark.DateType()), True)
    row = parse_type({"type": "ROW", "fields": [{"id": 1, "name": "x", "type": "BIGINT NOT NULL"}]})
    assert spark_type(row) == spark.StructType([spark.StructField("x", spark.LongType(), False)])


def test_nullability_comment_and_default_reach_spark() -> None:
    fields = [
        DataField(0, "id", parse_type("INT NOT NULL"), "the key"),
        DataField(1, "v", parse_type("STRING"), None, "'none'"),
    ]
    schema = spark_schema(fields)
    assert [(f.name, f.nullable, f.metadata) for f in schema.fields] == [
        ("id", False, {"comment": "the key"}),
        ("v", True, {"CURRENT_DEFAULT": "'none'"}),
    ]


def test_a_written_schema_is_nullable_and_utc() -> None:
    schema = spark.StructType(
        [
            spark.StructField("id", spark.LongType(), False),
            spark.StructField("at", spark.TimestampType(), False),
            spark.StructField("local", spark.TimestampNTZType()),
            spark.StructField(
                "m", spark.MapType(spark.StringType(), spark.ArrayType(spark.TimestampType(), False), False)
            ),
        ]
    )
    assert written_schema(schema) == pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("local", pa.timestamp("us")),
            pa.field("m", pa.map_(pa.string(), pa.list_(pa.timestamp("us", "UTC")))),
        ]
    )


@pytest.mark.parametrize(
    "type_", [spark.DayTimeIntervalType(), spark.YearMonthIntervalType(), spark.VariantType(), spark.NullType()]
)
def test_a_type_without_counterpart_is_refused_with_its_column(type_: spark.DataType) -> None:
    nested = spark.StructType([spark.StructField("odd", spark.ArrayType(type_))])
    with pytest.raises(UnsupportedFeature, match=r"column odd: .*cast the column"):
        written_schema(nested)


TABLE = spark.StructType(
    [
        spark.StructField("id", spark.LongType(), False, {"comment": "key"}),
        spark.StructField("tags", spark.ArrayType(spark.StringType(), False)),
        spark.StructField("v", spark.StringType()),
    ]
)


def test_a_requested_schema_selects_columns() -> None:
    wanted = spark.StructType(
        [spark.StructField("v", spark.StringType()), spark.StructField("tags", spark.ArrayType(spark.StringType()))]
    )
    assert requested_columns(wanted, TABLE) == ("v", "tags")
    assert requested_columns(TABLE, TABLE) == ("id", "tags", "v")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (spark.StructField("w", spark.StringType()), r"'w' of the given schema does not exist.*id, tags, v"),
        (spark.StructField("id", spark.IntegerType()), r"column id is bigint in the table.*says int"),
        (spark.StructField("v", spark.StringType(), False), r"column v may hold nulls"),
    ],
)
def test_a_requested_schema_that_differs_is_refused(field: spark.StructField, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        requested_columns(spark.StructType([field]), TABLE)


def test_a_requested_schema_without_columns_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no column"):
        requested_columns(spark.StructType(), TABLE)


def test_not_null_inside_a_requested_type_must_hold_in_the_table() -> None:
    table = spark.StructType([spark.StructField("tags", spark.ArrayType(spark.StringType(), True))])
    wanted = spark.StructType([spark.StructField("tags", spark.ArrayType(spark.StringType(), False))])
    with pytest.raises(InvalidInput, match="column tags may hold nulls"):
        requested_columns(wanted, table)
