"""Partition directories: equal to those Java made, for every type that can partition."""

from __future__ import annotations

import datetime
import decimal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import CorruptFile, UnsupportedFeature
from paimon_spark.metadata.partition import escape, java_floating, partition_path
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import Options
from paimon_spark.types import DataField, arrow_type, parse_type
from tests.archives import unpack
from tests.metadata.tables import newest_schema, table_directories

FIXTURES = Path(__file__).parent.parent / "data" / "fixtures"
LEGACY, CAST = Options(), Options({"partition.legacy-name": "false"})
MILLIS = 1_700_000_000_123  # 2023-11-14T22:13:20.123Z


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fixtures")
    unpack(FIXTURES / "java09-warehouse.tar.gz", root)
    return root


def _named(type_: str, value: object, options: Options = LEGACY) -> str:
    field = DataField(0, "p", parse_type(type_))
    arrow = arrow_type(field.type)
    scalar = pa.scalar(value, arrow) if not isinstance(value, pa.Scalar) else value
    return partition_path([scalar], [field], options).removeprefix("p=")


def _first_rows(table: Path, schema: TableSchema) -> Iterator[tuple[str, list[pa.Scalar]]]:
    """Partition directory and partition values of every data file; the files hold the partition columns too."""
    for file in sorted(table.rglob("bucket-*/data-*")):
        if file.suffix not in (".parquet", ".orc"):
            continue
        data = pq.read_table(file) if file.suffix == ".parquet" else orc.read_table(file)
        values = [data.column(f.name)[0].cast(arrow_type(f.type)) for f in schema.partition_fields]
        yield str(file.parent.parent.relative_to(table)), values


def _check(table: Path) -> int:
    schema = newest_schema(table)
    if not schema.partition_keys:
        return 0
    checked = 0
    for directory, values in _first_rows(table, schema):
        assert partition_path(values, schema.partition_fields, schema.options) == directory
        checked += 1
    return checked


def test_directories_of_the_golden_tables(golden: Path) -> None:
    checked = {table: _check(table) for table in table_directories(golden)}
    partitioned = {str(table.relative_to(golden)).split("/")[1] for table, count in checked.items() if count}
    assert {"partition_kinds", "all_types_parquet", "all_types_orc", "dv_partition_buckets"} <= partitioned


def test_directories_of_the_fixtures(warehouse: Path) -> None:
    checked = {table.name: _check(table) for table in table_directories(warehouse)}
    assert checked["parts"] >= 3
    assert checked["mp"] >= 2
    assert checked["alltypes"] >= 2


def test_several_columns_and_none() -> None:
    fields = [DataField(0, "a=b", parse_type("INT")), DataField(1, "c", parse_type("STRING"))]
    assert partition_path([pa.scalar(1, pa.int32()), pa.scalar("x/y")], fields, LEGACY) == "a%3Db=1/c=x%2Fy"
    assert partition_path([], [], LEGACY) == ""


@pytest.mark.parametrize("value", [None, "", " ", "\t\n", "\u3000\u2003"])
def test_null_and_blank_share_the_default_name(value: str | None) -> None:
    assert _named("STRING", value) == "__DEFAULT_PARTITION__"
    assert _named("STRING", value, Options({"partition.default-name": "no/ne"})) == "no%2Fne"


@pytest.mark.parametrize("value", ["\u00a0", "\u2007", "\u202f", "\u0085"])
def test_what_java_does_not_call_whitespace_is_a_name(value: str) -> None:
    assert _named("STRING", value) == value


def test_escaping_covers_exactly_the_set() -> None:
    escaped = {c for c in map(chr, range(256)) if escape(c) != c}
    assert escaped == {*map(chr, range(0x20)), "\x7f", *"\"#%'*/:=?\\{}[]^"}
    assert escape("\n:\x7f") == "%0A%3A%7F"
    assert escape("a b|<>&+,中文\U0001f600") == "a b|<>&+,中文\U0001f600"


@pytest.mark.parametrize(
    ("type_", "value", "legacy", "cast"),
    [
        ("TINYINT", -3, "-3", "-3"),
        ("BIGINT", 2**62, "4611686018427387904", "4611686018427387904"),
        ("BOOLEAN", True, "true", "true"),
        ("CHAR(3)", "abc", "abc", "abc"),
        ("DATE", datetime.date(2024, 1, 1), "19723", "2024-01-01"),
        ("DATE", datetime.date(1969, 12, 31), "-1", "1969-12-31"),
        ("DATE", pa.scalar(-719_529, pa.int32()).cast(pa.date32()), "-719529", "-0001-12-31"),
        ("DATE", pa.scalar(2_932_897, pa.int32()).cast(pa.date32()), "2932897", "+10000-01-01"),
        ("TIME(0)", datetime.time(1, 2, 3), "3723000", "01%3A02%3A03"),
        ("TIME(3)", datetime.time(1, 2, 3), "3723000", "01%3A02%3A03.0"),
        ("TIME(3)", datetime.time(1, 2, 3, 120_000), "3723120", "01%3A02%3A03.12"),
        ("TIME(3)", datetime.time(1, 2, 3, 5_000), "3723005", "01%3A02%3A03.005"),
        ("TIME(2)", datetime.time(1, 2, 3, 105_000), "3723105", "01%3A02%3A03.10"),
        ("DECIMAL(20, 2)", decimal.Decimal("-300.00"), "-300.00", "-300.00"),
        ("DECIMAL(38, 10)", decimal.Decimal("0.0000000001"), "0.0000000001", "0.0000000001"),
        ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
        ("FLOAT", 1.1, "1.1", "1.1"),
    ],
)
def test_texts_of_values(type_: str, value: object, legacy: str, cast: str) -> None:
    assert _named(type_, value) == legacy
    assert _named(type_, value, CAST) == cast


@pytest.mark.parametrize(
    ("precision", "unit", "value", "legacy", "cast"),
    [
        (3, "ms", MILLIS, "2023-11-14T22:13:20.123", "2023-11-14 22:13:20.123"),
        (3, "ms", 1_704_067_200_000, "2024-01-01T00:00", "2024-01-01 00:00:00.000"),
        (0, "ms", 1_704_067_205_000, "2024-01-01T00:00:05", "2024-01-01 00:00:05"),
        (3, "ms", 1_704_067_200_100, "2024-01-01T00:00:00.100", "2024-01-01 00:00:00.100"),
        (6, "us", 1_704_067_200_000_100, "2024-01-01T00:00:00.000100", "2024-01-01 00:00:00.000100"),
        (6, "us", 1_704_067_200_120_000, "2024-01-01T00:00:00.120", "2024-01-01 00:00:00.120000"),
        (9, "ns", 1_704_067_200_000_000_001, "2024-01-01T00:00:00.000000001", "2024-01-01 00:00:00.000000001"),
        (3, "ms", -1, "1969-12-31T23:59:59.999", "1969-12-31 23:59:59.999"),
        (6, "us", -62_135_596_800_000_001, "0000-12-31T23:59:59.999999", "0000-12-31 23:59:59.999999"),
    ],
)
def test_timestamps(precision: int, unit: str, value: int, legacy: str, cast: str) -> None:
    scalar = pa.scalar(value, pa.int64()).cast(pa.timestamp(unit))
    assert _named(f"TIMESTAMP({precision})", scalar) == escape(legacy)
    assert _named(f"TIMESTAMP({precision})", scalar, CAST) == escape(cast)


def test_zoned_timestamps_are_utc_in_legacy_names_and_local_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        scalar = pa.scalar(MILLIS, pa.timestamp("ms", "UTC"))
        type_ = "TIMESTAMP(3) WITH LOCAL TIME ZONE"
        assert _named(type_, scalar) == escape("2023-11-14T22:13:20.123")
        assert _named(type_, scalar, CAST) == escape("2023-11-15 06:13:20.123")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_binary_has_a_name_only_when_cast() -> None:
    assert _named("BYTES", b"ab", CAST) == "ab"
    with pytest.raises(UnsupportedFeature, match=r"'p' has type BYTES.*partition\.legacy-name"):
        _named("BYTES", b"ab")
    with pytest.raises(CorruptFile, match="not UTF-8"):
        _named("BYTES", b"\xff", CAST)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (100.0, "100.0"),
        (123456.789, "123456.789"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.25e10, "1.25E10"),
        (0.001, "0.001"),
        (0.00123, "0.00123"),
        (0.05, "0.05"),
        (0.0009999, "9.999E-4"),
        (1e-5, "1.0E-5"),
        (1 / 3, "0.3333333333333333"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (2e23, "2.0E23"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_as_java_writes_them(value: float, expected: str) -> None:
    assert java_floating(value, np.float64) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.1, "1.1"), (3.4028235e38, "3.4028235E38"), (1.4e-45, "1.4E-45"), (16777216.0, "1.6777216E7"), (0.1, "0.1")],
)
def test_floats_as_java_writes_them(value: float, expected: str) -> None:
    assert java_floating(float(np.float32(value)), np.float32) == expected
