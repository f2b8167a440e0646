"""Compact rows against those that Java wrote, and back again; their order against Java's comparator."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptFile
from paimon_spark.files.key_values import KeyValues
from paimon_spark.lookup.key_order import CompactOrder
from paimon_spark.lookup.key_search import search_keys
from paimon_spark.lookup.value_processor import ValueProcessor
from paimon_spark.rows.compact_row import decode, encode
from paimon_spark.types import BINARIES, TIMESTAMPS, DataField, DataType, arrow_type, parse_type

VERSIONS = ("java-0.9", "java-2.0")
NESTED = ("ARRAY", "MAP", "ROW")


def array_of(values: list[Any], type_: DataType) -> pa.Array:
    """Golden values (bytes as hex, dates and decimals as text, timestamps with up to nine digits) as an Arrow column.

    :raises OverflowError: a timestamp beyond the Arrow type's range or precision
    """
    arrow = arrow_type(type_)
    if type_.root in BINARIES:
        values = [None if value is None else bytes.fromhex(value) for value in values]
    elif type_.root == "DECIMAL":
        values = [None if value is None else Decimal(value) for value in values]
    elif type_.root in ("FLOAT", "DOUBLE"):
        values = [None if value is None else float(value) for value in values]
    elif type_.root == "DATE":
        return pa.array(values, pa.string()).cast(arrow)
    elif type_.root in TIMESTAMPS:
        factor = {"ms": 10**6, "us": 10**3, "ns": 1}[arrow.unit]
        units = [None if value is None else divmod(nanoseconds(value), factor) for value in values]
        if any(unit is not None and unit[1] for unit in units):
            raise OverflowError("more digits than the type has, which Java keeps all the same")
        values = [None if unit is None else unit[0] for unit in units]
        return pa.array(values, pa.int64()).cast(arrow)
    return pa.array(values, arrow)


def nanoseconds(text: str) -> int:
    whole, _, digits = text.rstrip("Z").partition(".")
    seconds = (datetime.fromisoformat(whole) - datetime(1970, 1, 1)) // timedelta(seconds=1)
    return seconds * 10**9 + int(digits.ljust(9, "0") or 0)


def fits(value: Any, type_: DataType) -> bool:
    try:
        array_of([value], type_)
    except OverflowError:
        return False
    return True


def plain_cases(golden: Path, version: str, name: str) -> list[dict[str, Any]]:
    cases = json.loads((golden / "vectors" / version / name).read_text())
    return [case for case in cases if not any(t.startswith(NESTED) for t in case["types"])]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_rows_are_javas(golden: Path, version: str) -> None:
    checked = 0
    for case in plain_cases(golden, version, "rows.json"):
        types = [parse_type(text) for text in case["types"]]
        try:
            columns = [array_of([value], type_) for value, type_ in zip(case["compacted_read"], types, strict=True)]
        except OverflowError:
            continue
        assert encode(columns, types)[0].as_py().hex() == case["compacted_hex"], case
        assert encode(columns, types, kind=3)[0].as_py().hex() == case["compacted_hex_delete_kind"]
        for kind in ("compacted_hex", "compacted_hex_delete_kind"):
            back = decode(pa.array([bytes.fromhex(case[kind])], pa.binary()), types)
            assert [a.type for a in back] == [arrow_type(t) for t in types]
            assert encode(back, types)[0].as_py().hex() == case["compacted_hex"]
        checked += 1
    assert checked > 110


def test_many_rows_with_nulls_come_back(golden: Path) -> None:
    """All values that the golden rows have for a type, nulls between them, in one batch."""
    for name in ("TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "FLOAT", "DOUBLE", "STRING", "BYTES", "DATE"):
        _round_trip(golden, [name, "STRING", name])
    for name in ("TIME(3)", "DECIMAL(10, 2)", "DECIMAL(38, 18)", "TIMESTAMP(3)", "TIMESTAMP(6)"):
        _round_trip(golden, ["INT", name, name])


def _round_trip(golden: Path, names: list[str]) -> None:
    types = [parse_type(name) for name in names]
    columns = []
    for number, name in enumerate(names):
        cases = [c for c in plain_cases(golden, "java-2.0", "rows.json") if c["types"] == [name]]
        values = [c["compacted_read"][0] for c in cases if fits(c["compacted_read"][0], types[number])] + [None]
        columns.append(array_of([values[i // (number + 1) % len(values)] for i in range(300)], types[number]))
    rows = encode(columns, types)
    for column, back, type_ in zip(columns, decode(rows, types), types, strict=True):
        assert back.is_null().equals(column.is_null())
        assert encode([back], [type_]).equals(encode([column], [type_]))
    assert encode([column[7:90] for column in columns], types).equals(rows[7:90])
    for column, back in zip(columns, decode(rows[7:90], types), strict=True):
        assert repr(back.to_pylist()) == repr(column[7:90].to_pylist())


def test_lookup_values_are_javas(golden: Path, version: str) -> None:
    file = json.loads((golden / "vectors" / version / "lookup-values.json").read_text())
    kinds = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
    fields = tuple(DataField(i, f"c{i}", parse_type(text)) for i, text in enumerate(file["types"]))
    for case in file["cases"]:
        columns = [array_of([value], field.type) for value, field in zip(case["value"], fields, strict=True)]
        table = pa.table(columns, names=[field.name for field in fields])
        row = KeyValues(table, np.array([case["seq"]]), np.array([kinds[case["kind"]]], np.int8))
        for processor, name in (
            (ValueProcessor(fields, False), "KeyValueProcessor"),
            (ValueProcessor(fields, True), "PositionedKeyValueProcessor_true"),
            (ValueProcessor(None, True), "PositionedKeyValueProcessor_false"),
        ):
            values = processor.encode(row, np.array([case["row_position"]]))
            assert values[0].as_py().hex() == case[name]
            back = processor.decode(values)
            assert back.positions is None or back.positions.tolist() == [case["row_position"]]
            if back.rows is not None:
                assert back.rows.values.to_pylist() == table.to_pylist()
                assert back.rows.sequence is not None
                assert back.rows.sequence.tolist() == [case["seq"]]
                assert (back.rows.kind is None and case["kind"] == "+I") or back.rows.kind == kinds[case["kind"]]
    assert ValueProcessor(None, False).encode(KeyValues(pa.table({"a": [1, 2]})), np.arange(2)).to_pylist() == [
        b"",
        b"",
    ]


def test_order_is_javas(golden: Path, version: str) -> None:
    checked = 0
    for case in plain_cases(golden, version, "slice-order.json"):
        types = [parse_type(text) for text in case["types"]]
        rows = list(zip(*case["sorted"], strict=True))
        try:
            columns = [array_of(list(values), type_) for values, type_ in zip(rows, types, strict=True)]
        except OverflowError:
            continue
        # Distinct values may be equal in a type of less precision; Java lists them in their order all the same.
        keys = pa.array(list(dict.fromkeys(encode(columns, types).to_pylist())), pa.binary())
        ordered = CompactOrder(types).normalize(keys)
        assert search_keys(ordered).first_unsorted() is None, case
        checked += 1
    assert checked > 20


def test_order_of_strings_with_zeros_before_another_column() -> None:
    types = [parse_type("BYTES NOT NULL"), parse_type("INT NOT NULL")]
    texts = [b"", b"\x00", b"\x00\x00", b"\x00\x01", b"\x01", b"a", b"a\x00", b"a\x00b", b"ab"]
    columns = [pa.array([t for t in texts for _ in range(3)], pa.binary()), pa.array([-1, 0, 1] * 9, pa.int32())]
    ordered = CompactOrder(types).normalize(encode(columns, types))
    assert search_keys(ordered).first_unsorted() is None


def test_damaged_rows_are_refused() -> None:
    types = [parse_type(t) for t in ("INT", "STRING", "DECIMAL(38, 2)", "TIMESTAMP(6)", "BOOLEAN")]
    columns = [
        pa.array([7], pa.int32()),
        pa.array(["hello"]),
        pa.array([Decimal("1.25")], pa.decimal128(38, 2)),
        pa.array([1], pa.timestamp("us")),
        pa.array([True]),
    ]
    row = encode(columns, types)[0].as_py()
    for length in range(len(row)):
        with pytest.raises(CorruptFile):
            decode(pa.array([row[:length]], pa.binary()), types)
    with pytest.raises(CorruptFile, match="longer"):
        decode(pa.array([row + b"x"], pa.binary()), types)
    for at in range(len(row)):
        damaged = row[:at] + bytes([row[at] ^ 0xFF]) + row[at + 1 :]
        try:
            decode(pa.array([damaged], pa.binary()), types)
        except CorruptFile:
            continue
