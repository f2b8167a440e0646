"""Are two sets of rows the same? And what did Java answer when the golden tables were made?"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa


def canonical(table: pa.Table) -> list[str]:
    """One text a row, sorted: equal lists mean equal multisets of rows. Columns in ``table``'s order; the entries of a
    map in any order; NaN equals NaN and -0.0 differs from 0.0; nanoseconds count."""
    columns = [[_text(v, f.type) for v in column] for f, column in zip(table.schema, table.columns, strict=True)]
    return sorted("(" + ", ".join(row) + ")" for row in zip(*columns, strict=True))


def _text(value: pa.Scalar, type_: pa.DataType) -> str:
    if not value.is_valid:
        return "null"
    if pa.types.is_timestamp(type_):
        return f"{value.cast(pa.timestamp('ns', type_.tz)).value}ns"
    if pa.types.is_map(type_):
        pairs = [(_text(e["key"], type_.key_type), _text(e["value"], type_.item_type)) for e in value.values]
        return "{" + ", ".join(f"{k}: {v}" for k, v in sorted(pairs)) + "}"
    if pa.types.is_list(type_):
        return "[" + ", ".join(_text(e, type_.value_type) for e in value.values) + "]"
    if pa.types.is_struct(type_):
        members = (type_.field(i) for i in range(type_.num_fields))
        return "(" + ", ".join(_text(value[f.name], f.type) for f in members) + ")"
    return repr(value.as_py())


def assert_same_rows(actual: pa.Table, expected: pa.Table) -> None:
    """Fails, naming up to five rows of each side, unless both tables hold the same rows, columns matched by name."""
    assert sorted(actual.column_names) == sorted(expected.column_names)
    have = Counter(canonical(actual))
    want = Counter(canonical(expected.select(actual.column_names)))
    extra, missing = list((have - want).elements()), list((want - have).elements())
    summary = f"{len(missing)} rows missing, {len(extra)} rows too many, of {expected.num_rows} expected"
    listing = "\n".join([*(f"  missing {row}" for row in missing[:5]), *(f"  extra   {row}" for row in extra[:5])])
    assert have == want, f"{summary}\n{listing}"


def golden_snapshots(case: Path) -> list[dict[str, Any]]:
    """What Java read at each snapshot when the golden ``case`` was made: snapshot, columns, rows or error."""
    return [json.loads(line) for line in (case / "snapshots.jsonl").read_text().splitlines()]


def golden_table(record: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """The rows of such a record as an Arrow table; ``schema`` gives the types, by column name."""
    names = record["columns"]
    fields = [schema.field(name) for name in names]
    columns = [
        pa.array([_value(row[i], field.type) for row in record["rows"]], field.type) for i, field in enumerate(fields)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _value(json_value: Any, type_: pa.DataType) -> Any:
    if json_value is None:
        return None
    if pa.types.is_list(type_):
        return [_value(v, type_.value_type) for v in json_value]
    if pa.types.is_map(type_):
        return [(_value(k, type_.key_type), _value(v, type_.item_type)) for k, v in json_value]
    if pa.types.is_struct(type_):
        members = (type_.field(i) for i in range(type_.num_fields))
        return {f.name: _value(v, f.type) for f, v in zip(members, json_value, strict=True)}
    return _atomic(json_value, type_)


def _atomic(json_value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_decimal(type_):
        return Decimal(json_value)
    if pa.types.is_binary(type_):
        return bytes.fromhex(json_value)
    if pa.types.is_date(type_):
        return datetime.date.fromisoformat(json_value)
    if pa.types.is_floating(type_):
        return float(json_value)
    if pa.types.is_timestamp(type_):
        moment = np.datetime64(json_value.removesuffix("Z"), "ns").astype(np.int64)
        return int(moment) // {"ms": 1_000_000, "us": 1_000, "ns": 1}[type_.unit]
    return json_value
