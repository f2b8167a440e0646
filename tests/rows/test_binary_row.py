"""BinaryRow: Java's own rows, and every value through encode and decode."""

from __future__ import annotations

import struct
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFile, InvalidInput, UnsupportedFeature
from paimon_spark.rows.binary_row import EMPTY_ROW, decode, encode, serialize
from paimon_spark.rows.murmur import hash_rows
from paimon_spark.types import DataType, arrow_type, parse_type
from tests.rows.columns import TYPES, random_columns
from tests.rows.java_vectors import column, types_of, vectors

# type, value, serialized row, hash code: rows that Java 0.9 projected.
PUBLISHED: list[tuple[str, Any, str, int | None]] = [
    ("INT", 1, "00000001 0000000000000000 0100000000000000", 1465514398),
    ("BIGINT", 1, "00000001 0000000000000000 0100000000000000", 1465514398),
    ("BOOLEAN", True, "00000001 0000000000000000 0100000000000000", 1465514398),
    ("INT", -1, "00000001 0000000000000000 ffffffff00000000", 1133687267),
    ("SMALLINT", -2, "00000001 0000000000000000 feff000000000000", 557672611),
    ("TINYINT", -2, "00000001 0000000000000000 fe00000000000000", 1831745471),
    ("DATE", date(2024, 1, 1), "00000001 0000000000000000 0b4d000000000000", -1439008885),
    ("STRING", "", "00000001 0000000000000000 0000000000000080", 302122119),
    ("STRING", "abc", "00000001 0000000000000000 6162630000000083", -101922419),
    ("STRING", "1234567", "00000001 0000000000000000 3132333435363787", 199144172),
    ("STRING", "12345678", "00000001 0000000000000000 0800000010000000 3132333435363738", -391021801),
    (
        "STRING",
        "123456789",
        "00000001 0000000000000000 0900000010000000 31323334353637383900000000000000",
        1682144562,
    ),
    ("STRING", "中文", "00000001 0000000000000000 e4b8ade696870086", 1956728004),
    ("BYTES", b"\1\2\3", "00000001 0000000000000000 0102030000000083", 1066645297),
    ("DECIMAL(10,2)", Decimal("1.25"), "00000001 0000000000000000 7d00000000000000", 500483854),
    (
        "DECIMAL(20,2)",
        Decimal("1.25"),
        "00000001 0000000000000000 0100000010000000 7d000000000000000000000000000000",
        1146913853,
    ),
    (
        "DECIMAL(20,2)",
        Decimal("-300.00"),
        "00000001 0000000000000000 0200000010000000 8ad00000000000000000000000000000",
        1703931411,
    ),
    ("TIMESTAMP(3)", 1700000000123, "00000001 0000000000000000 7b68e5cf8b010000", -1285420957),
    (
        "TIMESTAMP(6)",
        1700000000123456,
        "00000001 0000000000000000 40f5060010000000 7b68e5cf8b010000",
        1196670069,
    ),
    ("TIMESTAMP(6)", -1, "00000001 0000000000000000 583e0f0010000000 ffffffffffffffff", 1236894319),
    ("FLOAT", 1.5, "00000001 0000000000000000 0000c03f00000000", -173842779),
    ("FLOAT", -0.0, "00000001 0000000000000000 0000008000000000", 916225219),
    ("DOUBLE", 1.5, "00000001 0000000000000000 000000000000f83f", 1860889473),
    ("DOUBLE", float("nan"), "00000001 0000000000000000 000000000000f87f", -1323214697),
    ("INT", None, "00000001 0001000000000000 0000000000000000", -1748325344),
    ("STRING", None, "00000001 0001000000000000 0000000000000000", -1748325344),
    ("TIMESTAMP(6)", None, "00000001 0001000000000000 0000000010000000 0000000000000000", -340882661),
    ("DECIMAL(20,2)", None, "00000001 0001000000000000 0000000010000000" + "00" * 16, -1380280760),
]


@pytest.mark.parametrize(("name", "value", "serialized", "code"), PUBLISHED)
def test_single_fields_are_javas_bytes(name: str, value: Any, serialized: str, code: int) -> None:
    type_ = parse_type(name)
    columns = [pa.array([value], arrow_type(type_))]
    assert serialize(columns, [type_]) == [bytes.fromhex(serialized)]
    assert hash_rows(encode(columns, [type_])).tolist() == [code]


def test_rows_of_several_fields_are_javas_bytes() -> None:
    rows = [
        ("INT", "STRING"),
        ("STRING", "STRING"),
        ("INT", "INT", "STRING"),
        ("DATE", "INT", "BOOLEAN", "TIMESTAMP(3)", "DECIMAL(20,2)"),
    ]
    values: list[tuple[Any, ...]] = [
        (7, "hello world"),
        ("hello world", "0123456789"),
        (5, None, "x"),
        (date(2024, 1, 1), 8, True, 1700000000123, Decimal("1.25")),
    ]
    expected = [
        "00000002 0000000000000000 0700000000000000 0b00000018000000 68656c6c6f20776f726c640000000000",
        "00000002 0000000000000000 0b00000018000000 0a00000028000000"
        "68656c6c6f20776f726c640000000000 30313233343536373839000000000000",
        "00000003 0002000000000000 0500000000000000 0000000000000000 7800000000000081",
        "00000005 0000000000000000 0b4d000000000000 0800000000000000 0100000000000000 7b68e5cf8b010000"
        "0100000030000000 7d000000000000000000000000000000",
    ]
    for names, row, serialized in zip(rows, values, expected, strict=True):
        types = [parse_type(name) for name in names]
        columns = [pa.array([v], arrow_type(t)) for v, t in zip(row, types, strict=True)]
        assert serialize(columns, types) == [bytes.fromhex(serialized)]


def test_rows_without_fields() -> None:
    assert serialize([], []) == [EMPTY_ROW]
    assert serialize([], [], rows=3) == [EMPTY_ROW] * 3
    assert hash_rows(encode([], [])).tolist() == [-1670924195]
    assert decode([EMPTY_ROW], []) == []


@pytest.mark.parametrize("file", ["buckets.json", "rows.json"])
@pytest.mark.parametrize("version", ["java-0.9", "java-2.0"])
def test_every_vector(golden: Path, version: str, file: str) -> None:
    """Version 0.9 wrote these rows, not its buckets, without reserved pieces under nulls; both forms are read."""
    checked = short = 0
    for record in vectors(golden, version, file):
        types = types_of(record)
        if types is None:
            continue
        columns = [column([v], t) for v, t in zip(record["values"], types, strict=True)]
        java = bytes.fromhex(record["binaryrow_hex"])
        encoded = encode(columns, types)
        decoded = decode([struct.pack(">i", len(types)) + java], types)
        assert [_comparable(c) for c in decoded] == [_comparable(c) for c in columns], record
        checked += 1
        if version == "java-0.9" and len(java) < len(encoded[0].as_py()):
            short += 1
            continue
        assert encoded[0].as_py() == java, record
        assert hash_rows(encoded).tolist() == [record["hash"]], record
        if "manifest_hex" in record:
            assert serialize(columns, types) == [bytes.fromhex(record["manifest_hex"])]
    assert checked >= 130
    assert short == (4 if version == "java-0.9" else 0)


def test_finer_fractions_than_the_type_holds_are_cut_off_and_wider_ranges_refused(golden: Path) -> None:
    records = {(r["types"][0], str(r["values"][0])): r for r in vectors(golden, "java-2.0", "rows.json")}
    fine = records["TIMESTAMP(6)", "2024-01-02T03:04:05.678901234"]
    (micros,) = decode([bytes.fromhex(fine["manifest_hex"])], [parse_type("TIMESTAMP(6)")])
    assert micros.cast(pa.int64()).to_pylist() == [1704164645678901]
    far = records["TIMESTAMP(9)", "9999-12-31T23:59:59.999"]
    with pytest.raises(UnsupportedFeature, match="TIMESTAMP"):
        decode([bytes.fromhex(far["manifest_hex"])], [parse_type("TIMESTAMP(9)")])


@settings(max_examples=150, deadline=None)
@given(random_columns())
def test_decode_reverses_encode(table: tuple[list[DataType], list[pa.Array]]) -> None:
    types, columns = table
    rows = serialize(columns, types)
    assert len(rows) == len(columns[0])
    assert all(len(row) % 8 == 4 for row in rows)
    assert [_comparable(c) for c in decode(rows, types)] == [_comparable(c) for c in columns]
    chunked = [pa.chunked_array([c.slice(0, 1), c.slice(1)]) for c in columns]
    assert serialize(chunked, types) == rows
    (last,) = decode(rows, types, columns=[len(types) - 1])
    assert _comparable(last) == _comparable(columns[-1])


def test_rows_do_not_depend_on_what_lies_under_a_null() -> None:
    """Arrow leaves the bytes under a null undefined; keys are compared by their bytes."""
    mask = pa.py_buffer(b"\x01")
    text = pa.py_buffer(b"visibleunder the null")
    string = pa.Array.from_buffers(pa.string(), 2, [mask, pa.py_buffer(np.array([0, 7, 21], np.int32)), text])
    number = pa.Array.from_buffers(pa.int64(), 2, [mask, pa.py_buffer(np.array([5, 6]))])
    wide = pa.Array.from_buffers(pa.decimal128(38, 0), 2, [mask, pa.py_buffer(np.array([5, 0, -6, -1]))])
    micros = pa.Array.from_buffers(pa.timestamp("us"), 2, [mask, pa.py_buffer(np.array([5, 6]))])
    types = [parse_type(t) for t in ("STRING", "BIGINT", "DECIMAL(38,0)", "TIMESTAMP(6)")]
    clean = [pa.array([column[0].as_py(), None], column.type) for column in (string, number, wide, micros)]
    assert serialize([string, number, wide, micros], types) == serialize(clean, types)


def test_one_long_value_among_short_ones() -> None:
    values = ["", "a" * 1_000_003, None, "b", "c" * 9]
    string = parse_type("STRING")
    assert decode(serialize([pa.array(values)], [string]), [string])[0].to_pylist() == values


def test_nested_columns_of_nulls() -> None:
    """The bounds that files have of nested columns."""
    array = DataType("ARRAY", element=DataType("INT"))
    assert decode(serialize([pa.nulls(2, pa.list_(pa.int32()))], [array]), [array])[0].null_count == 2
    with pytest.raises(CorruptFile):
        decode([struct.pack(">iqq", 1, 0, 0)], [array])


def test_columns_of_another_arrow_type_are_refused() -> None:
    with pytest.raises(InvalidInput, match="int32"):
        encode([pa.array([1], pa.int64())], [parse_type("INT")])


def _row(header: int, slot: int, piece: bytes = b"") -> bytes:
    return struct.pack(">i", 1) + struct.pack("<QQ", header, slot) + piece


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("INT", EMPTY_ROW),
        ("INT", b""),
        ("INT", _row(0, 1)[:-1]),
        ("INT", struct.pack(">i", 2) + bytes(16)),
        ("STRING", _row(0, 16 << 32 | 9, b"8 bytes.")),
        ("STRING", _row(0, 24 << 32 | 8, b"8 bytes.")),
        ("STRING", _row(0, 8 << 32 | 8, b"8 bytes.")),
        ("STRING", _row(0, 0x7FFFFFFF << 32 | 0xFFFFFFFF, b"8 bytes.")),
        ("STRING", _row(0, 0x88 << 56)),
        ("STRING", _row(0, 0x81 << 56 | 0xFF)),
        ("DECIMAL(10, 2)", _row(0, 10**10)),
        ("DECIMAL(20, 2)", _row(0, 16 << 32 | 17, bytes(24))),
        ("DECIMAL(20, 2)", _row(0, 24 << 32 | 16, bytes(16))),
        ("DECIMAL(20, 2)", _row(0, 16 << 32 | 16, b"\x7f" * 16)),
        ("TIMESTAMP(6)", _row(0, 16 << 32 | 1_000_000, bytes(8))),
        ("TIMESTAMP(6)", _row(0, 16 << 32)),
        ("TIMESTAMP(6)", _row(0, 8 << 32, bytes(8))),
    ],
)
def test_damaged_rows_are_reported(name: str, row: bytes) -> None:
    with pytest.raises(CorruptFile):
        decode([row], [parse_type(name)])


@settings(max_examples=300, deadline=None)
@given(random_columns(), st.data())
def test_flipped_bits_are_answered_or_reported(
    table: tuple[list[DataType], list[pa.Array]], data: st.DataObject
) -> None:
    types, columns = table
    rows = [bytearray(row) for row in serialize(columns, types)]
    for _ in range(data.draw(st.integers(1, 4))):
        row = data.draw(st.sampled_from(rows))
        row[data.draw(st.integers(0, len(row) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        decoded = decode([bytes(row) for row in rows], types)
    except (CorruptFile, UnsupportedFeature):
        return
    assert [len(array) for array in decoded] == [len(rows)] * len(types)
    for array in decoded:
        array.validate(full=True)


def test_every_scalar_type_is_covered() -> None:
    roots = {type_.root for type_ in TYPES}
    assert len(roots) == 16


def _comparable(array: pa.Array) -> list[Any]:
    """Values, floats as their bits."""
    if pa.types.is_floating(array.type):
        bits = pa.int32() if array.type == pa.float32() else pa.int64()
        array = pa.Array.from_buffers(bits, len(array), array.buffers(), offset=array.offset)
    elif pa.types.is_temporal(array.type):
        array = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return list(array.to_pylist())
