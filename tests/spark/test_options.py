"""What options mean: the table's place, columns, filters, and the options that a write passes on."""

from __future__ import annotations

import datetime as dt
import decimal
import json

import numpy as np
import pytest

from paimon_spark.errors import InvalidInput, InvalidOption
from paimon_spark.predicate import parse_predicate
from paimon_spark.spark import options
from paimon_spark.types import DataField, parse_type


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"path": "/t"}, "/t"),
        ({"paths": '["/t"]'}, "/t"),
        ({"warehouse": "/w/", "table": "db.t"}, "/w/db.db/t"),
        ({"warehouse": "file:/w", "table": "db.t"}, "file:/w/db.db/t"),
    ],
)
def test_where_the_table_is(given: dict[str, str], path: str) -> None:
    assert options.table_path(given) == path


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "which table"),
        ({"warehouse": "/w"}, "which table"),
        ({"paths": '["/a", "/b"]'}, "one path is expected, not 2"),
        ({"path": "/t", "table": "db.t"}, "not path and table"),
        ({"warehouse": "/w", "table": "t"}, "'database.table' is expected"),
        *(
            ({"warehouse": "/w", "table": name}, "'database.table' is expected")
            for name in ("../x.t", "db...", "db.", "db. ", "db.a/../b", "db.a\\b", "db.a\0b", "a.b.c")
        ),
        ({"warehouse": "/w", "table": "db.t$snapshots"}, "system tables and branches"),
        ({"warehouse": "/w", "table": "db.t$branch_b"}, "system tables and branches"),
    ],
)
def test_where_the_table_is_not(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        options.table_path(given)


def test_columns_are_a_comma_list_or_json() -> None:
    assert options.chosen_columns({}) is None
    assert options.chosen_columns({"columns": " a, b"}) == ("a", "b")
    assert options.chosen_columns({"columns": options.columns_json(["a,b", " c "])}) == ("a,b", " c ")
    for wrong in ("", "a,,b", "a,a", "[1"):
        with pytest.raises(InvalidOption, match="'columns'"):
            options.chosen_columns({"columns": wrong})


def test_a_read_passes_on_paimon_options() -> None:
    given = {
        "path": "/t",
        "columns": "a",
        "filters": "[]",
        "scan.tag-name": "T",
        "deletion-vectors.merge-on-read": "false",
    }
    assert options.read_options(given, ["a"]) == {"scan.tag-name": "T", "deletion-vectors.merge-on-read": "false"}


def test_a_write_passes_on_neither_its_own_options_nor_those_of_reads() -> None:
    given = {
        "path": "/t",
        "columns": "a",
        "filters": "[]",
        "partitionoverwritemode": "dynamic",
        "mergeschema": "true",
        "scan.snapshot-id": "1",
        "source.split.target-size": "1 mb",
        "bucket": "2",
        "fields.total.aggregate-function": "sum",
        "fields.g1,g2.sequence-group": "Total,b",
    }
    assert options.write_options(given, ["Total", "G1", "g2", "b"]) == {
        "bucket": "2",
        "fields.Total.aggregate-function": "sum",
        "fields.G1,g2.sequence-group": "Total,b",
    }


def test_a_column_in_an_option_name_must_be_clear() -> None:
    assert options.restore_case("fields.default-aggregate-function", ["default-aggregate-function"]) == (
        "fields.default-aggregate-function"
    )
    with pytest.raises(InvalidOption, match=r"lower case.*A, a"):
        options.restore_case("fields.a.aggregate-function", ["A", "a"])


def test_options_that_would_change_the_meaning_of_a_write_are_refused() -> None:
    with pytest.raises(InvalidOption, match=r"replacewhere.*partitionOverwriteMode=dynamic"):
        options.write_options({"replacewhere": "a > 1"}, [])


@pytest.mark.parametrize(
    ("given", "dynamic"),
    [
        ({}, False),
        ({"partitionoverwritemode": "DYNAMIC"}, True),
        ({"partitionoverwritemode": "static", "dynamic-partition-overwrite": "true"}, False),
        ({"dynamic-partition-overwrite": "true"}, True),
        ({"dynamic-partition-overwrite": "false"}, False),
    ],
)
def test_an_overwrite_is_static_unless_told(given: dict[str, str], dynamic: bool) -> None:
    assert options.overwrites_dynamically(given) is dynamic


def test_an_unknown_overwrite_mode_is_refused() -> None:
    with pytest.raises(InvalidOption, match="'static' or 'dynamic'"):
        options.overwrites_dynamically({"partitionoverwritemode": "some"})


VALUES = [
    ("INT", np.int32(7), 7),
    ("STRING", "a", "a"),
    ("DATE", dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
    ("DECIMAL(10, 2)", decimal.Decimal("1.50"), decimal.Decimal("1.50")),
    ("BYTES", b"\x00\xff", b"\x00\xff"),
    ("TIMESTAMP(6)", dt.datetime(2024, 1, 1, 1, 2, 3, 4), dt.datetime(2024, 1, 1, 1, 2, 3, 4)),
    (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        dt.datetime(2023, 12, 31, 22, tzinfo=dt.timezone.utc),
    ),
]


@pytest.mark.parametrize(("type_", "value", "expected"), VALUES)
def test_filter_values_survive_the_way_through_an_option(type_: str, value: object, expected: object) -> None:
    text = options.filters_json([("c", "=", value), ("c", "in", {value})])
    predicate = parse_predicate(text, [DataField(0, "c", parse_type(type_))])
    assert predicate is not None
    equal, member = predicate.any_of[0]
    assert equal.value.as_py() == expected
    assert member.value.to_pylist() == [expected]


def test_a_filter_value_of_no_columns_type_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot compare"):
        options.filters_json([("c", "=", object())])
    assert json.loads(options.filters_json([["a", "is null"]])) == [["a", "is null"]]
