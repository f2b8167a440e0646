"""The order of keys and partitions, for the few of them that metadata compares: file bounds and partition bounds.

Columns compare one after another, nulls first; strings and binaries by their unsigned bytes, floats as Java's
``Float.compare`` does: -Infinity < ... < -0.0 < 0.0 < ... < Infinity < NaN, and all NaNs are equal.

Source: ``GenerateUtils.generateCompare`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_numpy
from paimon_spark.rows.binary_row import decode, serialize
from paimon_spark.types import DataType

Comparable = tuple[tuple[bool, Any], ...]


def comparable_rows(rows: Sequence[bytes], types: Sequence[DataType]) -> list[Comparable]:
    """Serialized BinaryRows as tuples that compare, and are equal, as the rows do."""
    if not types or not rows:
        return [()] * len(rows)
    return list(zip(*map(_comparable_column, decode(rows, types)), strict=True))


def _comparable_column(column: pa.Array) -> list[tuple[bool, Any]]:
    type_ = column.type
    if pa.types.is_floating(type_):
        values = _float_order(column)
    elif pa.types.is_string(type_):
        values = column.cast(pa.binary()).to_pylist()
    elif pa.types.is_date32(type_) or pa.types.is_time32(type_):
        values = column.cast(pa.int32()).to_pylist()
    elif pa.types.is_timestamp(type_):
        values = column.cast(pa.int64()).to_pylist()
    else:
        values = column.to_pylist()
    return [(value is not None, value) for value in values]


def _float_order(column: pa.Array) -> list[int | None]:
    """Integers in the order of the floats: their bits, with the magnitude of negative ones reversed."""
    floats = to_numpy(column.cast(pa.float64()))
    bits = np.where(np.isnan(floats), np.float64("nan"), floats).view(np.int64)
    ordered = np.where(bits < 0, np.int64(-(2**63)) - bits - 1, bits)
    return [int(v) if valid else None for v, valid in zip(ordered, column.is_valid().to_pylist(), strict=True)]


def column_bounds(rows: Sequence[bytes], types: Sequence[DataType]) -> tuple[bytes, bytes, tuple[int, ...]]:
    """Column by column: the least and the greatest value of the rows, as two serialized rows, and the nulls' number.

    A column of nulls has null bounds. Requires: at least one row.
    """
    columns = decode(rows, types) if types else []
    lower: list[pa.Array] = []
    upper: list[pa.Array] = []
    for column in columns:
        keys = _comparable_column(column)
        present = [i for i, (valid, _) in enumerate(keys) if valid] or [0]
        lower.append(column.slice(min(present, key=keys.__getitem__), 1))
        upper.append(column.slice(max(present, key=keys.__getitem__), 1))
    (low,), (high,) = serialize(lower, types), serialize(upper, types)
    return low, high, tuple(column.null_count for column in columns)
