"""Java's typed test values as Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.types import BINARIES, NESTED, TIMESTAMPS, DataType, arrow_type, parse_type

_DAY_NANOS = 86_400 * 10**9
_NESTED = DataType("ARRAY", element=DataType("INT"))


def vectors(golden: Path, version: str, name: str) -> list[dict[str, Any]]:
    """The records of one vector file."""
    return list(json.loads((golden / "vectors" / version / name).read_text()))


def column(values: Sequence[Any], type_: DataType) -> pa.Array:
    """The values as a column; NESTED types accept nulls only."""
    arrow = arrow_type(type_)
    if type_.root in TIMESTAMPS:
        unit = {"ms": 10**6, "us": 10**3, "ns": 1}[arrow.unit]
        return pa.array([None if v is None else nanoseconds(v) // unit for v in values], pa.int64()).cast(arrow)
    if type_.root == "DATE":
        days = [None if v is None else nanoseconds(v + "T00:00:00") // _DAY_NANOS for v in values]
        return pa.array(days, pa.int32()).cast(arrow)
    if type_.root == "TIME":
        return pa.array(values, pa.int32()).cast(arrow)
    if type_.root == "FLOAT":
        return pa.array(np.array([float(v) for v in values], np.float32))
    return pa.array([scalar(v, type_) for v in values], arrow)


def scalar(value: Any, type_: DataType) -> Any:
    """One JSON value as the Python value that Arrow takes."""
    if value is None or type_.root in NESTED:
        assert value is None
        return None
    if type_.root == "DECIMAL":
        return Decimal(value)
    if type_.root == "DOUBLE":
        return float(value)
    if type_.root in BINARIES:
        return bytes.fromhex(value)
    return value


def nanoseconds(text: str) -> int:
    """Nanoseconds from the epoch to a date and time such as 2024-01-02T03:04:05.678901234, of any year."""
    date, time = text.rstrip("Z").split("T")
    whole, _, fraction = time.partition(".")
    seconds = int(np.datetime64(f"{date}T{whole}", "s").astype(np.int64))
    return seconds * 10**9 + int(fraction.ljust(9, "0")[:9] or 0)


def types_of(record: dict[str, Any]) -> list[DataType] | None:
    """The record's types; None when one of them is nested and not null, or finer or wider than Arrow can hold."""
    if any(t.startswith(("ARRAY", "MAP", "ROW")) and v is not None for t, v in _pairs(record)):
        return None
    types = [_NESTED if t.startswith(("ARRAY", "MAP", "ROW")) else parse_type(t) for t in record["types"]]
    for type_, value in zip(types, record["values"], strict=True):
        if type_.root in TIMESTAMPS and value is not None and not _fits(nanoseconds(value), type_):
            return None
    return types


def _pairs(record: dict[str, Any]) -> list[tuple[str, Any]]:
    return list(zip(record["types"], record["values"], strict=True))


def _fits(nanos: int, type_: DataType) -> bool:
    unit = arrow_type(type_).unit
    if unit == "us":
        return nanos % 1000 == 0
    return unit == "ms" or abs(nanos) < 2**63
