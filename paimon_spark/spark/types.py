"""Columns of a table as Spark sees them, and columns of a DataFrame as a new table gets them.

Two things differ from the mapping of Paimon's own Spark connector. CHAR(n) and VARCHAR(n) are plain strings,
because Spark refuses to exchange its character types as Arrow data. And the columns of a table that a write
creates are nullable, as they are in every table that Spark creates from a query: that a DataFrame happens to hold
a literal says nothing about the rows that other feeds will write. Only primary keys and map keys are NOT NULL.

Source: ``SparkTypeUtils`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.types import DataField, DataType

_PLAIN: dict[str, Any] = {
    "BOOLEAN": spark.BooleanType(),
    "TINYINT": spark.ByteType(),
    "SMALLINT": spark.ShortType(),
    "INT": spark.IntegerType(),
    "BIGINT": spark.LongType(),
    "FLOAT": spark.FloatType(),
    "DOUBLE": spark.DoubleType(),
    "CHAR": spark.StringType(),
    "VARCHAR": spark.StringType(),
    "BINARY": spark.BinaryType(),
    "VARBINARY": spark.BinaryType(),
    "DATE": spark.DateType(),
    "TIME": spark.IntegerType(),
    "TIMESTAMP": spark.TimestampNTZType(),
    "TIMESTAMP_LTZ": spark.TimestampType(),
}


def spark_type(type_: DataType) -> Any:
    """The Spark type of a column: TIME is its milliseconds of the day (INT), MULTISET a map of counts."""
    if type_.root in _PLAIN:
        return _PLAIN[type_.root]
    if type_.root == "DECIMAL":
        return spark.DecimalType(type_.precision, type_.scale)
    if type_.root == "ARRAY":
        element = type_.element_type()
        return spark.ArrayType(spark_type(element), element.nullable)
    if type_.root == "MAP":
        value = type_.element_type()
        return spark.MapType(spark_type(type_.key_type()), spark_type(value), value.nullable)
    if type_.root == "MULTISET":
        return spark.MapType(spark_type(type_.element_type()), spark.IntegerType(), False)
    return spark_schema(type_.fields)


def spark_schema(fields: Iterable[DataField]) -> Any:
    """A StructType with the names, nullability, comments and default values of ``fields``."""
    return spark.StructType([_spark_field(f) for f in fields])


def _spark_field(field: DataField) -> Any:
    metadata = {}
    if field.description is not None:
        metadata["comment"] = field.description
    if field.default is not None:
        metadata["CURRENT_DEFAULT"] = field.default
    return spark.StructField(field.name, spark_type(field.type), field.type.nullable, metadata)


def requested_columns(requested: Any, table: Any) -> tuple[str, ...]:
    """The names in ``requested``, the schema that a user gave instead of the table's (both StructTypes).

    :raises InvalidInput: no column, one that the table lacks, of another type than the table's, or said to be NOT NULL
        where the table's may be null
    """
    if not requested.fields:
        raise InvalidInput("the given schema has no column; name one to count rows")
    known = {field.name: field for field in table.fields}
    for field in requested.fields:
        if field.name not in known:
            raise InvalidInput(
                f"column {field.name!r} of the given schema does not exist; the table's columns are {', '.join(known)}"
            )
        have = known[field.name]
        if _nullable(field.dataType) != _nullable(have.dataType):
            raise InvalidInput(
                f"column {field.name} is {have.dataType.simpleString()} in the table, but the given schema says "
                f"{field.dataType.simpleString()}; read it as it is and cast it in a select"
            )
        if not _promises_no_more(field, have):
            raise InvalidInput(
                f"column {field.name} may hold nulls in the table, but the given schema says NOT NULL; leave that out"
            )
    return tuple(requested.fieldNames())


def _nullable(type_: Any) -> Any:
    """``type_`` without NOT NULL and comments anywhere inside."""
    if isinstance(type_, spark.ArrayType):
        return spark.ArrayType(_nullable(type_.elementType), True)
    if isinstance(type_, spark.MapType):
        return spark.MapType(_nullable(type_.keyType), _nullable(type_.valueType), True)
    if isinstance(type_, spark.StructType):
        return spark.StructType([spark.StructField(f.name, _nullable(f.dataType), True) for f in type_.fields])
    return type_


def _promises_no_more(requested: Any, have: Any) -> bool:
    """Whether everything that is NOT NULL in ``requested`` is so in ``have``. Requires: the types are the same."""
    if have.nullable and not requested.nullable:
        return False
    return _no_more_inside(requested.dataType, have.dataType)


def _no_more_inside(requested: Any, have: Any) -> bool:
    if isinstance(have, spark.ArrayType):
        promised = have.containsNull and not requested.containsNull
        return not promised and _no_more_inside(requested.elementType, have.elementType)
    if isinstance(have, spark.MapType):
        promised = have.valueContainsNull and not requested.valueContainsNull
        keys = _no_more_inside(requested.keyType, have.keyType)
        return not promised and keys and _no_more_inside(requested.valueType, have.valueType)
    if isinstance(have, spark.StructType):
        return all(_promises_no_more(r, h) for r, h in zip(requested.fields, have.fields, strict=True))
    return True


_ARROW: tuple[tuple[Any, pa.DataType], ...] = (
    (spark.BooleanType, pa.bool_()),
    (spark.ByteType, pa.int8()),
    (spark.ShortType, pa.int16()),
    (spark.IntegerType, pa.int32()),
    (spark.LongType, pa.int64()),
    (spark.FloatType, pa.float32()),
    (spark.DoubleType, pa.float64()),
    (spark.StringType, pa.string()),
    (spark.BinaryType, pa.binary()),
    (spark.DateType, pa.date32()),
    (spark.TimestampNTZType, pa.timestamp("us")),
    (spark.TimestampType, pa.timestamp("us", "UTC")),
)


def written_schema(schema: Any) -> pa.Schema:
    """The Arrow schema of a DataFrame's rows when they reach a table: everything nullable but map keys, UTC, µs.

    :raises UnsupportedFeature: a column of a type that no Paimon column has (intervals, VARIANT, VOID, …)
    """
    return pa.schema([pa.field(f.name, _written_type(f.dataType, f.name)) for f in schema.fields])


def _written_type(type_: Any, column: str) -> pa.DataType:
    for known, arrow in _ARROW:
        if isinstance(type_, known):
            return arrow
    if isinstance(type_, spark.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, spark.ArrayType):
        return pa.list_(pa.field("element", _written_type(type_.elementType, column)))
    if isinstance(type_, spark.MapType):
        key = _written_type(type_.keyType, column)
        return pa.map_(key, pa.field("value", _written_type(type_.valueType, column)))
    if isinstance(type_, spark.StructType):
        return pa.struct([pa.field(f.name, _written_type(f.dataType, column)) for f in type_.fields])
    if type_.simpleString().startswith("time("):
        return pa.time32("ms")
    raise UnsupportedFeature(
        f"column {column}: Paimon tables have no column type for Spark's {type_.simpleString()}; "
        "cast the column to another type or drop it before the write"
    )
