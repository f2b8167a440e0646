"""Byte strings as NumPy sees them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from paimon_spark.rows.byte_strings import equal_rows


@pytest.mark.parametrize("part", [slice(0, 3), slice(1, 3), slice(2, 3)])
def test_strings_of_one_length_are_rows(part: slice) -> None:
    for strings in ([b"abc", b"def", b"ghi"], [b"", b"", b""]):
        array = pa.array([b"before", *strings, b"behind"], pa.binary())[1:4][part]
        rows = equal_rows(array)
        assert rows is not None
        assert [row.tobytes() for row in rows] == strings[part]


@pytest.mark.parametrize("strings", [[], [b"a", b"bc"], [b"ab", b"c", b"def"], [b"", b"a"]])
def test_other_strings_are_no_rows(strings: list[bytes]) -> None:
    assert equal_rows(pa.array([b"before", *strings], pa.binary())[1:]) is None
