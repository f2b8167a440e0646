"""Partition specifications: some partition columns with a value each, such as {"day": "2024-01-31"}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from paimon_spark.errors import InvalidInput
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.rows.binary_row import decode
from paimon_spark.types import arrow_type


def check_partition(schema: TableSchema, specification: Mapping[str, Any]) -> None:
    """Refuse a specification that names other columns than partition columns, or values that do not fit them.

    :raises InvalidInput: names the column
    """
    for name, value in specification.items():
        if name not in schema.partition_keys:
            known = ", ".join(schema.partition_keys) or "none"
            raise InvalidInput(f"{name!r} is not a partition column (there is {known})")
        _literal(schema, name, value)


def covers(schema: TableSchema, specification: Mapping[str, Any], partition: bytes) -> bool:
    """Whether a partition (a serialized BinaryRow) has all the values of the specification, None standing for null."""
    fields = schema.partition_fields
    columns = dict(zip((f.name for f in fields), decode([partition], [f.type for f in fields]), strict=True))
    return all(columns[name][0] == _literal(schema, name, value) for name, value in specification.items())


def _literal(schema: TableSchema, name: str, value: Any) -> pa.Scalar:
    type_ = schema.field(name).type
    try:
        return pa.scalar(value, arrow_type(type_))
    except (pa.ArrowException, TypeError, ValueError) as problem:
        raise InvalidInput(f"partition column {name!r}: {value!r} does not fit {type_} ({problem})") from None
