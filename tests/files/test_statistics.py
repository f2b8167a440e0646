"""Statistics gathered while writing, mode by mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.files.statistics import ColumnStatistics, StatisticsMode, column_statistics
from paimon_spark.metadata.data_file import DataFile, Statistics
from paimon_spark.rows.binary_row import serialize
from paimon_spark.types import DataField, arrow_type, parse_type
from tests.files.tables import fields_of, numbered, schema_of, write


def _gather(type_: str, mode: str, *parts: list[Any]) -> tuple[Any, Any, int | None]:
    parsed = parse_type(type_)
    statistics = ColumnStatistics(parsed, StatisticsMode.parse("m", mode))
    for part in parts:
        statistics.update(pa.chunked_array([pa.array(part, arrow_type(parsed))]))
    lower, upper = statistics.bounds()
    return lower[0].as_py(), upper[0].as_py(), statistics.null_count


@pytest.mark.parametrize(
    ("type_", "mode", "parts", "expected"),
    [
        ("INT", "full", [[3, None], [1, 2]], (1, 3, 1)),
        ("INT", "counts", [[3, None], [1, 2]], (None, None, 1)),
        ("INT", "none", [[3, None]], (None, None, None)),
        ("INT", "truncate(2)", [[12345, -12345]], (-12345, 12345, 0)),
        ("INT", "full", [[None], [None]], (None, None, 2)),
        ("BOOLEAN", "full", [[True], [False]], (False, True, 0)),
        ("STRING", "full", [["b" * 30], ["a" * 30]], ("a" * 30, "b" * 30, 0)),
        ("STRING", "truncate(16)", [["z" * 17]], ("z" * 16, "z" * 15 + "{", 0)),
        ("STRING", "truncate(16)", [["z" * 16]], ("z" * 16, "z" * 16, 0)),
        ("STRING", "truncate(3)", [["日本語日本"]], ("日本語", "日本誟", 0)),
        ("STRING", "truncate(2)", [["a\U0010ffffb"]], ("a\U0010ffff", "b", 0)),
        ("STRING", "truncate(2)", [["\U0010ffff" * 3, "a"]], (None, None, 0)),
        ("STRING", "truncate(1)", [["\ud7ffx"]], ("\ud7ff", "\ue000", 0)),
        ("STRING", "truncate(4)", [["", None]], ("", "", 1)),
        ("BYTES", "truncate(2)", [[b"\x01\xff\x00"]], (b"\x01\xff", b"\x02", 0)),
        ("BYTES", "truncate(2)", [[b"\xff\xff\xff", None]], (None, None, 1)),
        ("DOUBLE", "full", [[1.0, 2.0], [-3.0]], (-3.0, 2.0, 0)),
        ("DOUBLE", "full", [[1.0, float("nan")], [-3.0]], (None, None, 0)),
        ("FLOAT", "full", [[1.0], [float("nan"), None]], (None, None, 1)),
        ("DECIMAL(30, 2)", "full", [[5], [None, -7]], (-7, 5, 1)),
    ],
)
def test_modes(type_: str, mode: str, parts: list[list[Any]], expected: tuple[Any, Any, Any]) -> None:
    assert _gather(type_, mode, *parts) == expected


def test_zeros_bound_both_zeros() -> None:
    lower, upper, _ = _gather("DOUBLE", "full", [0.0, -0.0])
    assert (np.signbit(lower), np.signbit(upper)) == (True, False)


def test_modes_of_columns_reach_the_file(tmp_path: Path) -> None:
    array = {"type": "ARRAY", "element": "INT"}
    fields = fields_of(("k", "INT NOT NULL"), ("a", "STRING"), ("b", "STRING"), ("c", "STRING"), ("d", array))
    options = {"metadata_stats__mode": "counts", "fields_a_stats__mode": "full", "fields_b_stats__mode": "NONE"}
    schema = schema_of(fields, **options)
    table = pa.table(
        {"k": pa.array([1, 2], pa.int32()), "a": ["x" * 40, None], "b": ["y", None], "c": ["z", None], "d": [[1], None]}
    )
    table = table.set_column(4, "d", table.column("d").cast(pa.list_(pa.field("element", pa.int32()))))
    (file,) = write(tmp_path, schema, numbered(table))
    assert file.value_stats.null_counts == (0, 1, None, 1, None)
    lower, upper, nulls, rows = column_statistics([file], lambda _: schema, fields[1], key=False)
    assert (lower[0].as_py(), upper[0].as_py(), nulls[0].as_py(), rows[0].as_py()) == ("x" * 40, "x" * 40, 1, 2)


def test_columns_are_found_by_id_in_dense_and_wide_statistics() -> None:
    old = schema_of(fields_of(("k", "INT NOT NULL"), ("b", "STRING"), ("a", "INT")), id_=0)
    fields = (old.fields[0], old.fields[2], DataField(3, "b", parse_type("BIGINT")))
    new = schema_of(fields, id_=1)
    types = [parse_type("INT"), parse_type("STRING"), parse_type("INT")]

    def file(
        schema_id: int, values: list[Any], columns: tuple[str, ...] | None, nulls: tuple[int | None, ...]
    ) -> DataFile:
        of = {0: types, 1: [f.type.as_nullable() for f in fields]}[schema_id]
        names = [f.name for f in (old, new)[schema_id].fields]
        of = of if columns is None else [of[names.index(c)] for c in columns]
        row = serialize([pa.array([v], arrow_type(t)) for v, t in zip(values, of, strict=True)], of)[0]
        empty = Statistics(row, row, nulls)
        return DataFile("f", 1, 10, b"", b"", empty, empty, 0, 0, schema_id, 0, value_stats_cols=columns)

    files = [
        file(0, [1, "x", 5], None, (0, 1, 2)),
        file(1, [7], ("a",), (4,)),
        file(0, ["y"], ("b",), (0,)),
        file(1, [], (), ()),
        file(0, [2, 6], ("k", "a"), (0, None)),
    ]
    schemas = {0: old, 1: new}.__getitem__
    lower, upper, nulls, rows = column_statistics(files, schemas, fields[1], key=False)
    assert lower.to_pylist() == upper.to_pylist() == [5, 7, None, None, 6]
    assert nulls.to_pylist() == [2, 4, None, None, None]
    assert rows.to_pylist() == [10] * 5
    lower, _, nulls, _ = column_statistics(files, schemas, fields[2], key=False)
    assert lower.to_pylist() == [None] * 5
    assert lower.type == pa.int64()
    assert nulls.to_pylist() == [10, None, 10, None, 10]
    assert [len(a) for a in column_statistics([], schemas, fields[2], key=False)] == [0, 0, 0, 0]


def test_lengthened_text_columns_keep_their_statistics(tmp_path: Path) -> None:
    old = schema_of(fields_of(("k", "INT NOT NULL"), ("s", "VARCHAR(5)")))
    table = pa.table({"k": pa.array([1], pa.int32()), "s": ["abc"]})
    (file,) = write(tmp_path, old, numbered(table))
    longer, shorter = (DataField(1, "s", parse_type(t)) for t in ("STRING", "VARCHAR(2)"))
    assert column_statistics([file], lambda _: old, longer, key=False)[0].to_pylist() == ["abc"]
    assert column_statistics([file], lambda _: old, shorter, key=False)[0].to_pylist() == [None]
