"""Arrow batches on their way to Spark and from it.

Spark trusts what a Python source yields: 4.0 and 4.1 take columns by position and buffers as they come, 4.2 and
later refuse a first batch whose schema is not exactly theirs. So every batch gets exactly the types, order,
nullability and time zone that Spark derives from the DataFrame's schema. Nothing is copied but timestamps of
another unit than microseconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema


def outgoing_schema(schema: Any) -> pa.Schema:
    """The Arrow schema that Spark expects of batches with the StructType ``schema``, in any version of Spark."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def outgoing(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """``batch``, in a table's types, as Spark's ``schema``.

    Timestamps become microseconds, nanoseconds rounded towards the past; times of day become the milliseconds of
    the day. Requires: the batch has the schema's columns, in any order.
    """
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays([_as(batch.column(f.name), f.type) for f in schema], schema=schema)


def incoming(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """``batch`` from Spark as ``schema``, which has the same columns in the same order.

    Spark stamps timestamps with the session's time zone and may send its large types; both are undone.
    """
    if batch.schema.equals(schema):
        return batch
    arrays = [_as(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same values as ``target``: children are rebuilt one by one, since their nullability may differ."""
    if array.type.equals(target):
        return array
    if pa.types.is_timestamp(target):
        return _timestamps(array, target)
    if pa.types.is_int32(target) and pa.types.is_time32(array.type):
        return array.cast(pa.time32("ms")).view(target)
    if pa.types.is_time32(target) and pa.types.is_time64(array.type):
        return array.cast(target, safe=False)
    if pa.types.is_struct(target):
        members = [_as(array.field(i), target.field(i).type) for i in range(target.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(target), mask=array.is_null())
    if pa.types.is_list(target) or pa.types.is_map(target):
        return _lists(array, target)
    return array.cast(target)


def _timestamps(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    if array.type.unit == "ns" and target.unit == "us":
        array = pc.floor_temporal(array.cast(pa.timestamp("ns")), unit="microsecond")
    elif array.type.tz != target.tz:
        array = array.view(pa.timestamp(array.type.unit))
    return array.cast(pa.timestamp(target.unit)).view(target)


def _lists(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Lists and maps. The buffers stay; an offset into them stays too, so the child must be the whole child."""
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if pa.types.is_map(target):
        keys, values = _as(array.keys, target.key_type), _as(array.items, target.item_type)
        child: pa.Array = pa.StructArray.from_arrays([keys, values], fields=_entry_fields(target))
    else:
        child = _as(array.values, target.value_type)
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[child]
    )


def _entry_fields(map_type: pa.MapType) -> Sequence[pa.Field]:
    return [map_type.key_field, map_type.item_field]
