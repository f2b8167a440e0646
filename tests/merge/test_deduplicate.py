"""The deduplicate engine, by worked examples."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.files.key_values import KeyValues
from paimon_spark.merge.sorted_merge import fold
from tests.merge.records import engine_of, fields_of, fold_records, keys_of, parse_records, show_records, to_records

FIELDS = fields_of(k="BIGINT NOT NULL", ts="INT", v="STRING")

BY_TS = {"sequence.field": "ts"}
BY_TS_DESCENDING = {**BY_TS, "sequence.field.sort-order": "descending"}
IGNORE = {"ignore-delete": "true"}


@pytest.mark.parametrize(
    ("options", "records", "expected"),
    [
        ({}, ["+I 1 _ a", "-D 1 _ a", "+I 1 _ b"], ["+I 1 _ b"]),
        ({}, ["+I 1 _ a", "-D 1 _ b"], ["-D 1 _ b"]),
        ({}, ["+I 1 _ a", "-U 1 _ a"], ["-U 1 _ a"]),
        ({}, ["+I 1 _ a", "-U 1 _ a", "+U 1 _ _"], ["+U 1 _ _"]),
        ({}, ["+I 2 _ a", "+I 1 _ b", "+I 3 _ c"], ["+I 1 _ b", "+I 2 _ a", "+I 3 _ c"]),
        (BY_TS, ["+I 1 5 a", "+I 1 3 b"], ["+I 1 5 a"]),
        (BY_TS, ["+I 1 5 a", "+I 1 5 b"], ["+I 1 5 b"]),
        (BY_TS, ["+I 1 5 a", "+I 1 _ b"], ["+I 1 5 a"]),
        (BY_TS_DESCENDING, ["+I 1 5 a", "+I 1 3 b", "+I 1 _ c"], ["+I 1 3 b"]),
        (BY_TS, ["-D 1 9 a", "+I 1 4 b"], ["-D 1 9 a"]),
        ({"sequence.field": "ts,v"}, ["+I 1 5 b", "+I 1 5 a", "+I 1 4 z"], ["+I 1 5 b"]),
        (IGNORE, ["+I 1 _ a", "-D 1 _ b", "-U 1 _ c"], ["+I 1 _ a"]),
        (IGNORE, ["-D 1 _ a", "-U 1 _ b", "+I 2 _ c"], ["+I 2 _ c"]),
        (IGNORE, ["-D 1 _ a", "+I 2 _ b", "-D 2 _ c"], ["-D 1 _ a", "+I 2 _ b"]),
        (IGNORE, ["-D 1 _ a", "-D 1 _ b"], []),
    ],
)
def test_worked_examples(options: dict[str, str], records: list[str], expected: list[str]) -> None:
    engine = engine_of(options, FIELDS)
    assert show_records(fold_records(engine, parse_records(FIELDS, *records), FIELDS)) == expected


def test_the_sequence_number_decides_whatever_the_order_of_writing() -> None:
    engine = engine_of({}, FIELDS)
    first, second, third = parse_records(FIELDS, "+I 1 _ a", "+I 1 _ b", "+I 2 _ c")
    merged = fold_records(engine, [third, second, first], FIELDS)
    assert merged == [second, third]


def test_a_retract_is_older_than_an_add_of_the_same_sequence_number() -> None:
    engine = engine_of({}, FIELDS)
    values = pa.table({"k": [1, 1], "ts": [0, 0], "v": ["added", "deleted"]})
    rows = KeyValues(values, np.array([4, 4]), np.array([0, 3], np.int8))
    assert show_records(to_records(fold(keys_of(rows), rows, engine))) == ["+I 1 0 added"]


def test_distinct_keys_in_order_are_returned_without_a_copy() -> None:
    engine = engine_of({}, FIELDS)
    rows = KeyValues(pa.table({"k": [1, 2, 3], "ts": [0, 0, 0], "v": ["a", "b", "c"]}), np.arange(3))
    assert fold(keys_of(rows), rows, engine).values is rows.values


def test_no_rows() -> None:
    engine = engine_of(BY_TS | IGNORE, FIELDS)
    assert fold_records(engine, [], FIELDS) == []


def test_kinds_are_none_when_only_inserts_remain() -> None:
    engine = engine_of({}, FIELDS)
    values = pa.table({"k": [1, 1], "ts": [0, 0], "v": ["a", "b"]})
    rows = KeyValues(values, np.arange(2), np.array([3, 0], np.int8))
    assert fold(keys_of(rows), rows, engine).kind is None


def test_sequence_field_is_read_with_any_column() -> None:
    engine = engine_of(BY_TS, FIELDS)
    assert engine.required_columns(["v"]) == {"ts", "v"}
    assert engine_of({}, FIELDS).required_columns(["v"]) == {"v"}


@pytest.mark.parametrize("name", ["aggregation", "first-row"])
def test_other_engines_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedFeature, match=name):
        engine_of({"merge-engine": name}, FIELDS)


def test_an_unknown_sequence_field_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nosuch"):
        engine_of({"sequence.field": "nosuch"}, FIELDS)
