"""Murmur hashes against known values and a scalar reading of the algorithm."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.rows.murmur import hash_bytes, hash_bytes_many, hash_rows


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 142593372),
        (b"a", 1485273170),
        (b"abcd", -396302900),
        (b"abcde", 814637928),
        (b"\0\0\0\0\1\0\0\0", -1307033787),
        (b"\xff", 1398487324),
    ],
)
def test_known_hashes(data: bytes, expected: int) -> None:
    assert hash_bytes(data) == expected


def scalar_hash(data: bytes, seed: int) -> int:
    whole = len(data) // 4 * 4
    blocks = [int.from_bytes(data[i : i + 4], "little") for i in range(0, whole, 4)]
    blocks += [int.from_bytes(data[i : i + 1], "little", signed=True) % 2**32 for i in range(whole, len(data))]
    h = seed
    for k in blocks:
        k = k * 0xCC9E2D51 % 2**32
        k = (k << 15 | k >> 17) % 2**32 * 0x1B873593 % 2**32
        h ^= k
        h = ((h << 13 | h >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


@given(st.lists(st.binary(max_size=40), max_size=60), st.integers(0, 3), st.sampled_from([42, 0, 0xFFFFFFFF]))
def test_hashes_of_many_values(values: list[bytes], skip: int, seed: int) -> None:
    array = pa.array(values, pa.binary()).slice(skip)
    assert hash_bytes_many(array, seed).tolist() == [scalar_hash(v, seed) for v in values[skip:]]


@pytest.mark.parametrize("length", range(14))
def test_hashes_of_many_values_of_one_length(length: int) -> None:
    values = [bytes((i * 31 + j * 7 + 100) % 256 for j in range(length)) for i in range(20)]
    for before in (b"", b"1", b"333"):
        array = pa.array([before, *values], pa.binary())[1:]
        assert hash_bytes_many(array).tolist() == [scalar_hash(v, 42) for v in values]


def test_more_values_than_one_piece_holds() -> None:
    values = [b"value %d" % (i % 1000) for i in range(150_000)]
    expected = [scalar_hash(v, 42) for v in values[:1000]]
    assert hash_bytes_many(pa.array(values, pa.binary())).tolist() == expected * 150


@given(st.lists(st.integers(0, 12), max_size=60))
def test_hashes_of_rows_of_mixed_lengths(words: list[int]) -> None:
    rows = [bytes((i * 7 + j) % 256 for j in range(8 * n)) for i, n in enumerate(words)]
    assert hash_rows(pa.array(rows, pa.binary())).tolist() == [scalar_hash(row, 42) for row in rows]


def test_long_rows_among_many_short_ones() -> None:
    rows = [b"x" * 8] * 100 + [b"long row" * 5000, b"another." * 4000] + [b"y" * 16] * 3
    expected = [scalar_hash(row, 42) for row in rows]
    assert hash_rows(pa.array(rows, pa.binary())).tolist() == expected
