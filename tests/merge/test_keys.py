"""Normalized keys against Java's order and a comparator that knows one pair of values at a time."""

from __future__ import annotations

import struct
from functools import cmp_to_key
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.merge.keys import KeyArray, normalize, normalize_sequence
from paimon_spark.types import DataType, arrow_type, parse_type
from tests.rows.columns import TYPES, array_of, random_columns, values_of
from tests.rows.java_vectors import column, types_of, vectors

STRING = parse_type("STRING")


def comparable(array: pa.Array) -> list[Any]:
    """Each value as a Python value that orders as Paimon does; None for null."""
    if pa.types.is_string(array.type):
        return [None if v is None else v.encode() for v in array.to_pylist()]
    if pa.types.is_floating(array.type):
        return [None if v is None else _total_order(v, array.type.bit_width) for v in array.to_pylist()]
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return list(array.to_pylist())


def _total_order(value: float, bits: int) -> tuple[int, float, int]:
    if value != value:
        return (1, 0.0, 0)
    negative_zero = struct.pack(">d", value) == struct.pack(">d", -0.0)
    return (0, value, -1 if negative_zero else 0)


def compare_rows(first: tuple[Any, ...], second: tuple[Any, ...], descending: bool = False) -> int:
    for a, b in zip(first, second, strict=True):
        if (a is None) != (b is None):
            return -1 if a is None else 1
        if a is not None and a != b:
            return (-1 if a < b else 1) * (-1 if descending else 1)
    return 0


def assert_order(keys: KeyArray, columns: list[pa.Array], descending: bool = False) -> None:
    """``keys`` sort, compare, group and search as the rows of ``columns`` do."""
    rows = list(zip(*map(comparable, columns), strict=True))
    assert len(keys) == len(rows)
    by_value = cmp_to_key(lambda i, j: compare_rows(rows[i], rows[j], descending))
    expected = sorted(range(len(rows)), key=by_value)
    assert np.argsort(keys, kind="stable").tolist() == expected
    in_order = keys[np.array(expected, np.int64)]
    results = [compare_rows(rows[i], rows[j], descending) for i, j in pairwise(expected)]
    assert (in_order[1:] == in_order[:-1]).tolist() == [r == 0 for r in results]
    assert (in_order[1:] > in_order[:-1]).tolist() == [r < 0 for r in results]
    firsts = np.searchsorted(in_order, keys, side="left")
    assert [compare_rows(rows[expected[f]], row, descending) for f, row in zip(firsts, rows, strict=True)] == (
        [0] * len(rows)
    )
    assert all(f == 0 or results[f - 1] < 0 for f in firsts)


@settings(max_examples=250, deadline=None)
@given(random_columns(nullable=False, max_rows=20))
def test_keys_order_as_paimon(table: tuple[list[DataType], list[pa.Array]]) -> None:
    types, columns = table
    assert_order(normalize(columns, types), columns)
    assert_order(normalize([pa.chunked_array([c.slice(0, 1), c.slice(1)]) for c in columns], types), columns)


@settings(max_examples=250, deadline=None)
@given(random_columns(max_rows=20))
def test_nulls_come_first(table: tuple[list[DataType], list[pa.Array]]) -> None:
    types, columns = table
    assert_order(normalize(columns, types), columns)


@settings(max_examples=250, deadline=None)
@given(random_columns(max_rows=20), st.booleans())
def test_sequences_order_in_both_directions(table: tuple[list[DataType], list[pa.Array]], descending: bool) -> None:
    types, columns = table
    ranks = normalize_sequence(columns, types, descending)
    assert ranks.dtype == np.int64
    assert_order(ranks, columns, descending)


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_every_type_alone(type_: DataType) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(values_of(type_), max_size=30), st.booleans())
    def check(values: list[Any], descending: bool) -> None:
        array = array_of(values, type_)
        assert_order(normalize([array], [type_]), [array])
        array = array_of([None, *values, None], type_)
        assert_order(normalize([array], [type_]), [array])
        assert_order(normalize_sequence([array], [type_], descending), [array], descending)

    check()


@pytest.mark.parametrize("version", ["java-0.9", "java-2.0"])
def test_javas_order(golden: Path, version: str) -> None:
    checked = 0
    for record in vectors(golden, version, "slice-order.json"):
        rows = [r for r in record["sorted"] if types_of({"types": record["types"], "values": r}) is not None]
        types = [parse_type(name) for name in record["types"]]
        columns = [column([r[i] for r in rows], t) for i, t in enumerate(types)]
        keys = normalize(columns, types)
        assert (keys[1:] >= keys[:-1]).all(), record["case"]
        distinct = set(zip(*map(comparable, columns), strict=True))
        assert len(np.unique(keys)) == len(distinct), record["case"]
        checked += len(rows)
    assert checked > 80


INTEGER_LIKE = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP(9)",
    "DECIMAL(18,2)",
]


@pytest.mark.parametrize("name", INTEGER_LIKE)
def test_single_integer_like_keys_are_int64_and_comparable_across_calls(name: str) -> None:
    type_ = parse_type(name)
    together = array_of([True, False] if name == "BOOLEAN" else [1, 0, 3], type_)
    keys = normalize([together], [type_])
    assert keys.dtype == np.int64
    assert normalize([together.slice(1)], [type_]).tolist() == keys[1:].tolist()


@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        (["INT", "DATE"], "uint64"),
        (["DOUBLE"], "uint64"),
        (["FLOAT", "SMALLINT", "BOOLEAN", "TINYINT"], "uint64"),
        (["BIGINT", "BOOLEAN"], "S9"),
        (["DECIMAL(38,0)"], "S16"),
        (["TIMESTAMP(6)", "INT", "INT"], "S16"),
    ],
)
def test_widths(names: list[str], dtype: str) -> None:
    types = [parse_type(name) for name in names]
    columns = [array_of([True if t.root == "BOOLEAN" else 1], t) for t in types]
    assert normalize(columns, types).dtype == np.dtype(dtype)
    assert normalize([c.slice(1) for c in columns], types).tolist() == []


def test_trailing_zero_bytes_of_keys_matter() -> None:
    values = ["a", "a\0", "a\0\0", "a\0\0\0\0\0\0\0\0", "a\0\0\0\0\0\0\0\0\0", "", "\0", "ab"]
    for tail in ([], [pa.array([0] * len(values), pa.int64())]):
        columns = [pa.array(values), *tail]
        types = [STRING, parse_type("BIGINT")][: len(columns)]
        keys = normalize(columns, types)
        assert len(np.unique(keys)) == len(values)
        assert_order(keys, columns)


def test_strings_order_by_utf8_bytes_not_by_utf16() -> None:
    values = ["\uffff", "\U0001f986", "z", "é", "", "\ud7ff", "\ue000"]
    keys = normalize([pa.array(values)], [STRING])
    assert [values[i] for i in np.argsort(keys)] == ["", "z", "é", "\ud7ff", "\ue000", "\uffff", "\U0001f986"]


def test_one_huge_value_does_not_widen_all_keys() -> None:
    values = [f"k{i:05}" for i in range(1000)] + ["k" * 1_000_000, "k" * 999_999, "k00007", "k" * 1_000_000]
    keys = normalize([pa.array(values)], [STRING])
    assert keys.itemsize <= 8
    assert_order(keys, [pa.array(values)])
    both = [pa.array(values), pa.array(range(len(values)), pa.int64())]
    assert_order(normalize(both, [STRING, parse_type("BIGINT")]), both)


@pytest.mark.parametrize("length", [63, 64, 65])
def test_keys_around_the_longest_padded_length(length: int) -> None:
    values = ["a" * length, "a" * (length - 1), "a" * (length - 1) + "\0", "a" * (length - 1) + "b", "b"]
    assert_order(normalize([pa.array(values)], [STRING]), [pa.array(values)])


def test_refusals() -> None:
    array = DataType("ARRAY", element=parse_type("INT"))
    with pytest.raises(UnsupportedFeature, match="ARRAY"):
        normalize([pa.array([[1]], arrow_type(array))], [array])
    with pytest.raises(InvalidInput, match="int64"):
        normalize([pa.array([1], pa.int64())], [parse_type("INT")])
