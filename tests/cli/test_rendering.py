"""Plain-text tables."""

from __future__ import annotations

import pytest

from paimon_spark.cli.arguments import parse_pair, parse_partition
from paimon_spark.cli.rendering import count, cut, one_line, size, table, terminal_width, without_repeats


def test_a_table_lines_up_and_fits() -> None:
    rows = [["a", "1", "short"], ["bb", "1,000", "long" * 10], ["", "1,001", ""]]
    assert list(table(["x", "rows", "keys"], rows, [False, True, False], width=20, totals=1)) == [
        "x    rows  keys",
        "--  -----  ---------",
        "a       1  short",
        "bb  1,000  longlong…",
        "--  -----  ---------",
        "    1,001",
    ]
    assert list(table(["x", "y"], [["1", "2" * 200]], [True, False]))[-1] == "1  " + "2" * 200


def test_repeats_are_blank_as_long_as_all_before_them_repeat() -> None:
    rows = [["p", "0", "0"], ["p", "0", "1"], ["p", "1", "1"], ["q", "1", "1"]]
    assert without_repeats(rows, 2) == [["p", "0", "0"], ["", "", "1"], ["", "1", "1"], ["q", "1", "1"]]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (13_002_342, "12.4 MiB"), (2**70, "1048576.0 PiB")],
)
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


def test_texts() -> None:
    assert count(1234567) == "1,234,567"
    assert (cut("abcd", 4), cut("abcde", 4)) == ("abcd", "abc…")
    assert one_line("a\n b\tc\x1b[31m") == "a b c\ufffd[31m"


@pytest.mark.parametrize(("columns", "width"), [("40", 80), ("96", 96), ("300", 120)])
def test_the_width_is_readable(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() == width


def test_pairs_and_partitions() -> None:
    assert parse_pair("a=b=c") == ("a", "b=c")
    assert parse_pair("a=") == ("a", "")
    assert parse_partition("dt=2024-01-01") == {"dt": "2024-01-01"}
    assert parse_partition("dt=2024-01-01,hr=8") == {"dt": "2024-01-01", "hr": "8"}
    assert parse_partition("dt=2024-01-01/hr=8") == {"dt": "2024-01-01", "hr": "8"}
    assert parse_partition("where=a/b") == {"where": "a/b"}
