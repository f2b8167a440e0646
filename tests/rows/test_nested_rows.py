"""Lists, maps and rows inside of compact rows and BinaryRows: back and forth, against Java, and damaged."""

from __future__ import annotations

import random
import struct
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptFile, InvalidInput, PaimonError
from paimon_spark.rows import binary_row, compact_row
from paimon_spark.table import PaimonTable
from paimon_spark.types import DataField, DataType, arrow_field, parse_type
from tests.java.referee import JavaPaimon
from tests.java.rows import assert_same_rows
from tests.rows.columns import (
    NESTED_TYPES,
    ROWS_OF_WIDE_TYPES,
    TYPES,
    array,
    array_of,
    comparable,
    mapping,
    random_value,
    row,
)
from tests.rows.java_rows import JavaRows
from tests.rows.java_vectors import vectors
from tests.sizes import seeded, sized

INT, TEXT = parse_type("INT"), parse_type("STRING")


def random_column(chance: random.Random, type_: DataType, rows: int) -> pa.Array:
    """A column of ``rows`` values, a slice of a longer one."""
    before = chance.randrange(10)
    return array_of([random_value(chance, type_) for _ in range(before + rows + 3)], type_).slice(before, rows)


@pytest.mark.parametrize("codec", ["compact", "binary"])
def test_nested_values_come_back(codec: str) -> None:
    chance = seeded(f"nested values, {codec}")
    for type_ in [*NESTED_TYPES, ROWS_OF_WIDE_TYPES]:
        types = [type_, INT, chance.choice(NESTED_TYPES)]
        columns = [random_column(chance, t, sized(12, 1000)) for t in types]
        if codec == "compact":
            rows = compact_row.encode(columns, types)
            back = compact_row.decode(rows, types)
            assert compact_row.encode(back, types).equals(rows)
            assert compact_row.encode([c[5:9] for c in columns], types).equals(rows[5:9])
            back = [c[3:] for c in back]
            assert compact_row.decode(rows[3:], types)[0].equals(back[0]) or "nan" in str(back[0])
        else:
            serialized = binary_row.serialize(columns, types)
            assert all(len(r) % 8 == 4 for r in serialized)
            back = binary_row.decode(serialized, types)
            assert binary_row.serialize(back, types) == serialized
            back = [c[3:] for c in back]
        for column, again, t in zip(columns, back, types, strict=True):
            assert again.type.equals(column.type), t
            assert comparable(again) == comparable(column[3:]), t


def test_members_without_nulls_have_none_where_their_row_is_null() -> None:
    """Parquet's writer refuses nulls in a member that is NOT NULL, even those of rows that are null themselves."""
    type_ = row(INT.not_null(), TEXT.not_null(), array(INT).not_null(), row(TEXT.not_null()).not_null())
    column = array_of([(1, "a", [1], ("b",)), None, None], type_)
    nothing = array_of([None, None], type_)
    for values in (column, nothing):
        compact = compact_row.decode(compact_row.encode([values], [type_]), [type_])[0]
        binary = binary_row.decode(binary_row.serialize([values], [type_]), [type_])[0]
        for back in (compact, binary):
            assert back.null_count == values.null_count
            assert [back.field(i).null_count for i in range(4)] == [0, 0, 0, 0]
            assert back.field(3).field(0).null_count == 0
            assert comparable(back) == comparable(values)


def test_what_lies_under_a_null_list_is_not_written() -> None:
    """Arrow may keep elements under a null."""
    offsets = pa.py_buffer(np.array([0, 1, 4, 6], np.int32))
    validity = pa.py_buffer(b"\x05")
    hidden = pa.Array.from_buffers(
        pa.list_(pa.int32()), 3, [validity, offsets], children=[pa.array(range(6), pa.int32())]
    )
    clean = pa.array([[0], None, [4, 5]], pa.list_(pa.int32()))
    assert compact_row.encode([hidden], [array(INT)]).equals(compact_row.encode([clean], [array(INT)]))
    assert binary_row.encode([hidden], [array(INT)]).equals(binary_row.encode([clean], [array(INT)]))


@pytest.mark.parametrize("version", ["java-0.9", "java-2.0"])
def test_golden_rows_with_nested_values(golden: Path, version: str) -> None:
    types = [array(INT), mapping(TEXT, parse_type("BIGINT")), row(INT, TEXT), array(TEXT)]
    cases = [record for record in vectors(golden, version, "rows.json") if record["case"] == "nested"]
    assert len(cases) == 3
    for record in cases:
        columns = [array_of([value], type_) for value, type_ in zip(record["values"], types, strict=True)]
        assert compact_row.encode(columns, types)[0].as_py().hex() == record["compacted_hex"]
        assert binary_row.encode(columns, types)[0].as_py().hex() == record["binaryrow_hex"]
        compact = compact_row.decode(pa.array([bytes.fromhex(record["compacted_hex"])], pa.binary()), types)
        binary = binary_row.decode([struct.pack(">i", 4) + bytes.fromhex(record["binaryrow_hex"])], types)
        for column, one, other in zip(columns, compact, binary, strict=True):
            assert comparable(one) == comparable(other) == comparable(column)


def known_to_java(type_: DataType) -> bool:
    """Whether Java's bridge to Arrow knows the type; it stops at microseconds."""
    parts = [type_.key, type_.element, *(field.type for field in type_.fields)]
    fine = type_.root.startswith("TIMESTAMP") and type_.precision == 9
    return not fine and all(part is None or known_to_java(part) for part in parts)


def test_javas_bytes_are_ours_and_ours_are_javas(java: JavaPaimon, tmp_path: Path) -> None:
    """Java serializes what we do, byte for byte; and reads what we serialized, and writes it to a table."""
    chance = seeded("nested values in Java")
    types = [type_ for type_ in NESTED_TYPES if known_to_java(type_)]
    fields = [DataField(i, f"c{i}", type_) for i, type_ in enumerate([INT, *types])]
    columns = [pa.array(range(15), pa.int32()), *(random_column(chance, type_, 15) for type_ in types)]
    table = pa.table(columns, schema=pa.schema([arrow_field(field) for field in fields]))
    rows = compact_row.encode(columns, [field.type for field in fields]).to_pylist()
    javas = JavaRows(java, fields)
    assert javas.serialized(table) == rows
    javas.write(rows, tmp_path / "t", key="c0")
    assert_same_rows(PaimonTable.open(str(tmp_path / "t")).read(), table)


def test_nulls_of_wide_types_in_rows_of_java_0_9(java: JavaPaimon, tmp_path: Path) -> None:
    """They take no room there, as they do in later versions; both ways are read, by Java too."""
    type_ = array(row(INT, parse_type("DECIMAL(38, 10)"), parse_type("TIMESTAMP(6)"), TEXT))
    fields = [DataField(0, "id", INT), DataField(1, "rows", type_)]
    column = array_of([[(1, None, None, "a"), (None, None, None, None)], [(2, Decimal("1.5"), 1, None)]], type_)
    table = pa.table([pa.array([0, 1], pa.int32()), column], schema=pa.schema([arrow_field(f) for f in fields]))
    rows = compact_row.encode(table.columns, [INT, type_]).to_pylist()
    javas = JavaRows(java, fields)
    shorter = javas.serialized(table)
    assert len(rows[0]) > len(shorter[0])
    assert rows[1] == shorter[1]
    for serialized in (rows, shorter):
        assert comparable(compact_row.decode(pa.array(serialized, pa.binary()), [INT, type_])[1]) == comparable(column)
    javas.write(rows, tmp_path / "t", key="id")
    assert_same_rows(PaimonTable.open(str(tmp_path / "t")).read(), table)


@pytest.mark.parametrize("codec", ["compact", "binary"])
def test_damaged_nested_values_are_answered_or_refused(codec: str) -> None:
    """No flip of a bit and no cut does worse than other values or a CorruptFile."""
    chance = seeded(f"damaged nested values, {codec}")
    refused = 0
    for type_ in chance.sample(NESTED_TYPES, sized(20, len(NESTED_TYPES))):
        types = [type_, TEXT]
        columns = [random_column(chance, t, 4) for t in types]
        if codec == "compact":
            rows = compact_row.encode(columns, types).to_pylist()
        else:
            rows = binary_row.serialize(columns, types)
        for _ in range(sized(15, 1000)):
            damaged = [bytearray(row) for row in rows]
            victim = chance.choice(damaged)
            if chance.random() < 0.2:
                del victim[chance.randrange(len(victim)) :]
            else:
                victim[chance.randrange(len(victim))] ^= 1 << chance.randrange(8)
            data = [bytes(row) for row in damaged]
            try:
                if codec == "compact":
                    back = compact_row.decode(pa.array(data, pa.binary()), types)
                else:
                    back = binary_row.decode(data, types)
            except PaimonError:
                refused += 1
                continue
            for column in back:
                assert len(column) == 4
                column.validate(full=True)
    assert refused


def test_claims_of_arrays_and_maps_are_held_against_their_length() -> None:
    def compact(value: bytes) -> pa.Array:
        return pa.array([b"\0\0" + bytes([len(value)]) + value], pa.binary())

    ints, texts, named = array(INT), array(TEXT), mapping(TEXT, INT)
    two_in_one = struct.pack("<iiQQ", 2, 0, 24 << 32 | 8, 24 << 32 | 8) + b"8 bytes."
    for value, type_, words in (
        (b"", ints, "too few"),
        (struct.pack("<iii", 3, 0, 5) + bytes(4), ints, "too few"),
        (struct.pack("<iiq", 0x7FFFFFFF, 0, 5), ints, "too few"),
        (struct.pack("<iiq", -1, 0, 5), ints, "too few"),
        (struct.pack("<iiQ", 1, 0, 16 << 32 | 9) + b"8 bytes.", texts, "bytes 16 to 25"),
        (struct.pack("<iiQ", 1, 0, 8 << 32 | 8) + b"8 bytes.", texts, "bytes 8 to 16"),
        (struct.pack("<i", 9) + bytes(8), named, "too few"),
        (struct.pack("<i", 8) + bytes(8) + struct.pack("<iiq", 1, 0, 5), named, "more values than keys"),
        (struct.pack("<iiii", 12, 1, 1, 0) + struct.pack("<iii", 1, 0, 5), mapping(INT, INT), "key that is null"),
        (two_in_one[:-8] + b"8 bytes.", texts, None),
    ):
        if words is None:
            assert compact_row.decode(compact(value), [type_])[0].to_pylist() == [["8 bytes."] * 2]
            continue
        with pytest.raises(CorruptFile, match=words):
            compact_row.decode(compact(value), [type_])
    many = struct.pack("<ii", 32, 0) + struct.pack("<Q", 264 << 32 | 64) * 32 + b"x" * 64
    with pytest.raises(CorruptFile, match="2048 bytes in 328"):
        compact_row.decode(pa.array([b"\0\0" + bytes([0xC8, 0x02]) + many], pa.binary()), [texts])


def test_columns_of_another_shape_are_refused() -> None:
    for column, type_ in (
        (pa.array([1], pa.int32()), array(INT)),
        (pa.array([[1]], pa.large_list(pa.int32())), array(INT)),
        (pa.array([[1]], pa.list_(pa.int64())), array(INT)),
        (pa.array([1], pa.int32()), row(INT)),
        (pa.array([{"a": 1, "b": 2}], pa.struct([("a", pa.int32()), ("b", pa.int32())])), row(INT)),
    ):
        with pytest.raises(InvalidInput, match="Arrow column"):
            compact_row.encode([column], [type_])


def test_every_type_of_element_is_covered() -> None:
    elements = {type_.element for type_ in NESTED_TYPES if type_.root == "ARRAY"}
    assert elements.issuperset(TYPES)
    assert all(low != high for low, high in pairwise(NESTED_TYPES))
