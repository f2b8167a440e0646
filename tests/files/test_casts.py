"""Type changes: every cast of the table in casts.py, with Java's answers."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.files.casts import cast_values
from paimon_spark.files.evolution import evolve
from paimon_spark.types import DataField, DataType, arrow_type, parse_type

NAN, INF = float("nan"), float("inf")


def _cast(values: list[Any], source: str, target: str) -> list[Any]:
    old, new = parse_type(source), parse_type(target)
    padded = pa.array([None, *values, None], arrow_type(old))
    for array in (padded, pa.concat_arrays([padded, padded]).slice(len(padded))):
        result = cast_values(array, old, new, "c")
        assert result.type == arrow_type(new)
        result.validate(full=True)
        shown = result.to_pylist()
        assert shown[0] is None
        assert shown[-1] is None
    return shown[1:-1]


DAY = datetime.date(2024, 2, 29)
TS = datetime.datetime(2024, 2, 29, 3, 4, 5, 123456)
UTC = datetime.timezone.utc
OLD = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        ("INT", "BIGINT", [-5, 2**31 - 1], [-5, 2**31 - 1]),
        ("INT", "TINYINT", [300, -129, 127], [44, 127, 127]),
        ("BIGINT", "INT", [2**31, -(2**63)], [-(2**31), 0]),
        ("BIGINT", "SMALLINT", [65_537], [1]),
        ("INT", "FLOAT", [16_777_217], [16_777_216.0]),
        ("BIGINT", "DOUBLE", [2**53 + 1], [float(2**53)]),
        ("DOUBLE", "INT", [1.9, -1.9, NAN, INF, -INF, 1e10], [1, -1, 0, 2**31 - 1, -(2**31), 2**31 - 1]),
        ("DOUBLE", "BIGINT", [1e19, -1e19, 2.0**62, NAN], [2**63 - 1, -(2**63), 2**62, 0]),
        ("FLOAT", "TINYINT", [300.7, -1e20, INF], [44, 0, -1]),
        ("FLOAT", "DOUBLE", [0.5, INF], [0.5, INF]),
        ("DOUBLE", "FLOAT", [1e300, 0.1], [INF, 0.10000000149011612]),
        ("INT", "DECIMAL(5, 2)", [999, 1000, -999], [Decimal("999.00"), None, Decimal("-999.00")]),
        ("BIGINT", "DECIMAL(38, 18)", [2**63 - 1], [Decimal(2**63 - 1)]),
        ("BIGINT", "DECIMAL(38, 30)", [10**8, 10**7], [None, Decimal(10**7)]),
        ("DOUBLE", "DECIMAL(5, 2)", [1.005, -1.005, 999.994, 999.995], ["1.01", "-1.01", "999.99", None]),
        ("DOUBLE", "DECIMAL(38, 10)", [1e-300, 1e28, NAN, INF, 0.1], ["0", None, None, None, "0.1"]),
        ("FLOAT", "DECIMAL(10, 3)", [0.5, 1e12], ["0.500", None]),
        ("DECIMAL(5, 3)", "DECIMAL(4, 2)", ["1.005", "-1.005", "99.994", "99.995"], ["1.01", "-1.01", "99.99", None]),
        ("DECIMAL(5, 2)", "DECIMAL(38, 30)", ["123.45"], ["123.45"]),
        ("DECIMAL(38, 0)", "DECIMAL(38, 38)", ["0", "1"], ["0", None]),
        ("DECIMAL(20, 2)", "INT", ["1.99", "-1.99", "4294967297.50"], [1, -1, 1]),
        ("DECIMAL(38, 0)", "BIGINT", [str(2**64 + 5)], [5]),
        ("DECIMAL(38, 10)", "DOUBLE", ["0.1", "-123456789.5"], [0.1, -123456789.5]),
        ("DECIMAL(10, 1)", "FLOAT", ["0.1"], [0.10000000149011612]),
        ("INT", "BOOLEAN", [0, 1, -7], [False, True, True]),
        ("DOUBLE", "BOOLEAN", [0.0, -0.0, 0.5], [False, False, True]),
        ("DECIMAL(5, 2)", "BOOLEAN", ["0.00", "0.01"], [False, True]),
        ("BOOLEAN", "INT", [True, False], [1, 0]),
        ("BOOLEAN", "DOUBLE", [True, False], [1.0, 0.0]),
        ("BOOLEAN", "DECIMAL(3, 1)", [True, False], ["1.0", "0.0"]),
        ("BIGINT", "STRING", [-5], ["-5"]),
        ("INT", "VARCHAR(2)", [12345], ["12"]),
        ("INT", "CHAR(4)", [12, 12345], ["12  ", "1234"]),
        ("BOOLEAN", "STRING", [True, False], ["true", "false"]),
        ("DECIMAL(20, 10)", "STRING", ["0.0000000001", "-1.5"], ["0.0000000001", "-1.5000000000"]),
        ("DECIMAL(5, 0)", "STRING", ["-12"], ["-12"]),
        ("DECIMAL(38, 38)", "STRING", ["-0.5"], ["-0.5" + "0" * 37]),
        ("DOUBLE", "STRING", [1.0, 1e7, 1e-4, NAN, -INF, -0.0], ["1.0", "1.0E7", "1.0E-4", "NaN", "-Infinity", "-0.0"]),
        ("FLOAT", "STRING", [0.1, 123456.0], ["0.1", "123456.0"]),
        ("DATE", "STRING", [DAY], ["2024-02-29"]),
        ("TIME(0)", "STRING", [3_723_000], ["01:02:03"]),
        ("TIME(3)", "STRING", [3_723_004], ["01:02:03.004"]),
        ("TIMESTAMP(6)", "STRING", [TS, OLD], ["2024-02-29 03:04:05.123456", "1969-12-31 23:59:59.999999"]),
        ("TIMESTAMP(4)", "STRING", [datetime.datetime(2024, 1, 1, 0, 0, 0, 123400)], ["2024-01-01 00:00:00.1234"]),
        ("TIMESTAMP(0)", "STRING", [datetime.datetime(2024, 1, 1)], ["2024-01-01 00:00:00"]),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "STRING", [0], ["1970-01-01 00:00:00.000"]),
        ("STRING", "INT", [" 12 ", "-3", "+4"], [12, -3, 4]),
        ("STRING", "DOUBLE", [" 1.5 ", "1e3"], [1.5, 1000.0]),
        ("STRING", "DECIMAL(4, 1)", ["1.25", " 9999 ", "-0.05"], ["1.3", None, "-0.1"]),
        ("STRING", "BOOLEAN", ["T", "yes ", "1", "False", "n", "0"], [True, True, True, False, False, False]),
        ("STRING", "DATE", ["2024-02-29"], [DAY]),
        ("STRING", "TIME(3)", ["01:02:03.004"], [datetime.time(1, 2, 3, 4000)]),
        ("STRING", "TIMESTAMP(3)", ["2024-02-29 03:04:05.123456"], [TS.replace(microsecond=123000)]),
        ("STRING", "VARCHAR(3)", ["日本語日", "a"], ["日本語", "a"]),
        ("VARCHAR(9)", "CHAR(3)", ["abcd", "a"], ["abc", "a  "]),
        ("STRING", "BYTES", ["é"], ["é".encode()]),
        ("BYTES", "STRING", ["é".encode()], ["é"]),
        ("BYTES", "BINARY(3)", [b"abcd", b"a"], [b"abc", b"a\0\0"]),
        ("BYTES", "VARBINARY(2)", [b"abcd", b"a"], [b"ab", b"a"]),
        ("DATE", "TIMESTAMP(6)", [DAY], [datetime.datetime(2024, 2, 29)]),
        ("TIME(3)", "TIMESTAMP(3)", [3_723_004], [datetime.datetime(1970, 1, 1, 1, 2, 3, 4000)]),
        ("TIMESTAMP(6)", "DATE", [TS, OLD], [DAY, datetime.date(1969, 12, 31)]),
        ("TIMESTAMP(6)", "TIME(3)", [TS, OLD], [datetime.time(3, 4, 5, 123000), datetime.time(23, 59, 59, 999000)]),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", [TS, OLD], [TS.replace(microsecond=123000), OLD.replace(microsecond=999000)]),
        ("TIMESTAMP(6)", "TIMESTAMP(5)", [TS], [TS.replace(microsecond=123450)]),
        ("TIMESTAMP(6)", "TIMESTAMP(0)", [TS, OLD], [TS.replace(microsecond=0), datetime.datetime(1970, 1, 1)]),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", [TS.replace(microsecond=123000)], [TS.replace(microsecond=123000)]),
        ("TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", [TS], [TS.replace(tzinfo=UTC)]),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3)", [0], [datetime.datetime(1970, 1, 1)]),
        ("TIMESTAMP(6)", "BIGINT", [TS, OLD], [1_709_175_845, 0]),
        ("BIGINT", "TIMESTAMP(3)", [1_709_175_845], [TS.replace(microsecond=0)]),
        ("INT", "TIMESTAMP(6) WITH LOCAL TIME ZONE", [1], [datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]),
    ],
)
def test_casts(source: str, target: str, values: list[Any], expected: list[Any]) -> None:
    def exact(value: Any, type_: str) -> Any:
        return Decimal(value) if type_.startswith("DECIMAL") and isinstance(value, str) else value

    result = _cast([exact(v, source) for v in values], source, target)
    wanted = [exact(v, target) for v in expected]
    assert result == wanted
    assert [str(v) for v in result if isinstance(v, float)] == [str(v) for v in wanted if isinstance(v, float)]


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        ("STRING", "INT", "twelve"),
        ("STRING", "TINYINT", "300"),
        ("STRING", "DOUBLE", ""),
        ("STRING", "BOOLEAN", "maybe"),
        ("STRING", "DATE", "yesterday"),
        ("STRING", "DECIMAL(5, 2)", "1,5"),
        ("STRING", "TIMESTAMP(3)", "noon"),
    ],
)
def test_texts_that_are_no_values_are_errors(source: str, target: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=r"column c: .*STRING"):
        _cast([value], source, target)


@pytest.mark.parametrize(("source", "target"), [("DATE", "INT"), ("BYTES", "INT"), ("BOOLEAN", "DATE")])
def test_impossible_casts_name_column_and_types(source: str, target: str) -> None:
    with pytest.raises(UnsupportedFeature, match=f"column c: its type was {source} .* is {target} now"):
        _cast([None], source, target)


def _row(*members: tuple[int, str, str]) -> DataType:
    return DataType("ROW", fields=tuple(DataField(id_, name, parse_type(type_)) for id_, name, type_ in members))


def test_members_of_rows_are_matched_by_id_at_any_depth() -> None:
    old = _row((1, "a", "INT"), (2, "b", "STRING"), (3, "gone", "INT"))
    new = _row((9, "gone", "DOUBLE"), (2, "renamed", "STRING"), (1, "a", "BIGINT"))
    row = {"a": 1, "b": "x", "gone": 3}
    evolved = {"gone": None, "renamed": "x", "a": 1}
    rows = pa.array([row, None, {"a": None, "b": None, "gone": None}], arrow_type(old))
    empty = {"gone": None, "renamed": None, "a": None}
    for array in (rows, pa.concat_arrays([rows, rows]).slice(3)):
        result = evolve(array, old, new, "c")
        assert result.type == arrow_type(new)
        assert result.to_pylist() == [evolved, None, empty]
    lists = pa.array([[row, None], None, [], [row]], arrow_type(DataType("ARRAY", element=old)))
    for array, expected in ((lists, [[evolved, None], None, [], [evolved]]), (lists.slice(2), [[], [evolved]])):
        result = evolve(array, DataType("ARRAY", element=old), DataType("ARRAY", element=new), "c")
        result.validate(full=True)
        assert result.to_pylist() == expected
    key = parse_type("STRING NOT NULL")
    old_map, new_map = DataType("MAP", key=key, element=old), DataType("MAP", key=key, element=new)
    maps = pa.array([None, [("k", row), ("l", None)], []], arrow_type(old_map))
    result = evolve(maps.slice(1), old_map, new_map, "c")
    result.validate(full=True)
    assert result.to_pylist() == [[("k", evolved), ("l", None)], []]
    assert result.type == arrow_type(new_map)


def test_elements_are_cast() -> None:
    def of(root: str, element: str) -> DataType:
        return DataType(root, element=parse_type(element))

    numbers = pa.array([[1, None], None, [3]], arrow_type(of("ARRAY", "INT")))
    assert evolve(numbers, of("ARRAY", "INT"), of("ARRAY", "STRING"), "c").to_pylist() == [["1", None], None, ["3"]]
    bag = pa.array([[(1, 2)], None], arrow_type(of("MULTISET", "INT")))
    assert evolve(bag, of("MULTISET", "INT"), of("MULTISET", "BIGINT"), "c").to_pylist() == [[(1, 2)], None]


def test_nested_types_do_not_become_others() -> None:
    array = DataType("ARRAY", element=parse_type("INT"))
    with pytest.raises(UnsupportedFeature, match="column c"):
        evolve(pa.array([[1]], arrow_type(array)), array, parse_type("STRING"), "c")
