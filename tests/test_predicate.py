"""Filters: how they are written, which rows they keep, and which files they may leave out."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput
from paimon_spark.predicate import Predicate, parse_predicate
from paimon_spark.types import fields_from_arrow

NAN = math.nan
ROWS = pa.table(
    {
        "i": pa.array([1, 5, None, -3], pa.int32()),
        "x": pa.array([NAN, -0.0, 0.0, None], pa.float64()),
        "s": pa.array(["a", "ab", "b", None]),
        "d": pa.array([datetime.date(2024, 1, d) for d in (1, 2, 3, 4)]),
        "n": pa.array([Decimal("1.50"), Decimal("-2.00"), None, Decimal("0.00")], pa.decimal128(10, 2)),
        "t": pa.array([datetime.datetime(2024, 1, 1, h) for h in range(4)], pa.timestamp("us", "UTC")),
        "h": pa.array([0, 2000, None, 86_399_000], pa.time32("ms")),
        "b": pa.array([True, False, None, True]),
        "y": pa.array([b"\x01", b"", None, b"\xff"]),
        "l": pa.array([[1], None, [], [2]], pa.list_(pa.int32())),
    }
)
FIELDS, _ = fields_from_arrow(ROWS.schema)


def parsed(filters: Any) -> Predicate:
    predicate = parse_predicate(filters, FIELDS)
    assert predicate is not None
    return predicate


def kept(filters: Any) -> list[int]:
    return [i for i, keep in enumerate(parsed(filters).mask(ROWS).to_pylist()) if keep]


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        ([("i", ">", 0)], [0, 1]),
        ([("i", "!=", 5)], [0, 3]),
        ([("i", "is null")], [2]),
        ([("i", "not in", [1])], [1, 3]),
        ([("i", "in", [1, None])], [0]),
        ([("i", "not in", [1, None])], []),
        ([("x", "==", 0.0)], [1, 2]),
        ([("x", "in", [0.0])], [1, 2]),
        ([("x", "in", [-0.0, NAN])], [0, 1, 2]),
        ([("x", ">", 1e300)], [0]),
        ([("x", "<=", NAN)], [0, 1, 2]),
        ([("x", "<", NAN)], [1, 2]),
        ([("s", "starts with", "a")], [0, 1]),
        ([("y", "starts with", "ff")], [3]),
        ([("t", ">", "0001-01-01T00:00:00Z"), ("t", "<", "9999-12-31T23:59:59.999999Z")], [0, 1, 2, 3]),
        ([("d", ">=", "2024-01-03")], [2, 3]),
        ([("n", "<", "0.5")], [1, 3]),
        ([("t", "<", "2024-01-01T01:00:00Z")], [0]),
        ([("h", "==", "00:00:02")], [1]),
        ([("h", ">", 2000)], [3]),
        ([("b", "=", False)], [1]),
        ([("y", "<>", "ff")], [0, 1]),
        ([("l", "is not null")], [0, 2, 3]),
        ([("i", ">", 0), ("s", "==", "a")], [0]),
        ([[("i", "==", 5)], [("s", "==", "b")]], [1, 2]),
        ('[["i", ">", 0], ["i", "<", 3]]', [0]),
    ],
)
def test_rows_that_satisfy_the_filter(filters: Any, rows: list[int]) -> None:
    assert kept(filters) == rows


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ([("nope", "==", 1)], "column 'nope' does not exist"),
        ([("i", "~", 1)], "operator '~' is not one of"),
        ([("i", "==")], "needs a value"),
        ([("i", "==", None)], "nothing compares with null"),
        ([("i", "==", "x")], "'x' does not fit column i"),
        ([("i", "==", 2**40)], "does not fit column i"),
        ([("i", "==", 1.5)], "a whole number is needed"),
        ([("b", "==", 1)], "a boolean is needed"),
        ([("i", "==", True)], "a boolean is not expected"),
        ([("h", "==", "noon")], "'noon' does not fit column h"),
        ([("i", "in", 3)], "needs a list of values"),
        ([("l", "==", [1])], "test it for null only"),
        ([("i", "starts with", 1)], "column i is of type INT, which starts with nothing"),
        ("[[", "not valid JSON"),
        ("true", "must be a list"),
    ],
)
def test_filters_that_do_not_fit_are_refused(filters: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_predicate(filters, FIELDS)


@pytest.mark.parametrize(
    ("filters", "bounds", "possible"),
    [
        ([("i", ">", 5)], (1, 5, 0), False),
        ([("i", ">=", 5)], (1, 5, 0), True),
        ([("i", "==", 3)], (1, 5, 0), True),
        ([("i", "!=", 3)], (3, 3, 0), False),
        ([("i", "in", [0, 9])], (1, 5, 0), False),
        ([("i", "is null")], (1, 5, 0), False),
        ([("i", "is null")], (1, 5, None), True),
        ([("i", "is not null")], (None, None, 4), False),
        ([("i", "==", 3)], (None, None, 4), False),
        ([("i", "==", 3)], (None, None, None), True),
        ([("x", ">", 9.0)], (1.0, 5.0, 0), True),
        ([("x", "<", 1.0)], (1.0, 5.0, 0), False),
        ([("s", "starts with", "b")], ("c", "d", 0), False),
        ([("s", "starts with", "ca")], ("c", "d", 0), True),
    ],
)
def test_statistics_leave_a_file_out_only_when_no_row_can_match(
    filters: Any, bounds: tuple[Any, Any, int | None], possible: bool
) -> None:
    predicate = parsed(filters)
    type_ = ROWS.schema.field(filters[0][0]).type
    lower, upper = (pa.array([bound], type_) for bound in bounds[:2])
    counts = (pa.array([count], pa.int64()) for count in (bounds[2], 4))
    statistics = (lower, upper, *counts)
    assert predicate.may_match(lambda comparison: comparison.may_match(*statistics)).tolist() == [possible]


def test_what_remains_on_some_columns_is_weaker() -> None:
    predicate = parsed([[("i", ">", 0), ("s", "==", "a")], [("i", "<", -2)]])
    weaker = predicate.restricted({"i"})
    assert weaker is not None
    assert [i for i, keep in enumerate(weaker.mask(ROWS).to_pylist()) if keep] == [0, 1, 3]
    assert predicate.restricted({"s"}) is None
