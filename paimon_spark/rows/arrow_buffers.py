"""Arrow columns as NumPy views: numbers, decimals, validity, and variable-length values with their bytes.

Every function respects slices (``Array.offset``). Values under a null are zero, or of length zero, whatever the
buffers hold there, so that callers may compute on all rows alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.arrays import is_valid
from paimon_spark.errors import InvalidInput
from paimon_spark.types import BINARIES, NESTED, STRINGS, DataType, arrow_type

Column: TypeAlias = "pa.Array | pa.ChunkedArray"
BoolArray = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
UInt8Array = npt.NDArray[np.uint8]

MAX_BINARY = 2**31 - 1
"""Bytes that one Arrow array of variable-length values can hold (its offsets are 32 bits wide)."""

_LOW_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)


def plain_array(column: Column, type_: DataType) -> pa.Array:
    """``column`` in one piece.

    :raises InvalidInput: its Arrow type is not that of ``type_``, or it holds more than 2 GiB of bytes
    """
    if type_.root not in NESTED and column.type != arrow_type(type_):
        raise InvalidInput(f"an Arrow column of {arrow_type(type_)} is expected for {type_}, not of {column.type}")
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    try:
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    except pa.ArrowInvalid as problem:
        raise InvalidInput(f"a column of {len(column)} rows is too large for one piece: {problem}") from problem


def valid_rows(array: pa.Array) -> BoolArray | None:
    """Which rows are not null; None when none is null."""
    if array.null_count == 0:
        return None
    return is_valid(array)


def shown_rows(present: BoolArray, owners: BoolArray, nullable: bool) -> BoolArray | None:
    """The validity of a column whose values belong to ``owners``, rows or lists that may be absent themselves; None
    when no value is null, and where only absent owners lack values of a type that is not ``nullable``: Arrow's columns
    without nulls have no nulls there either."""
    if (present if nullable else present | ~owners).all():
        return None
    return present


def numbers(array: pa.Array) -> npt.NDArray[Any]:
    """The stored numbers of a fixed-width column other than decimal: dates as days, times as ms, timestamps as
    int64 in their own unit, booleans as uint8."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    dtype = (
        np.dtype(array.type.to_pandas_dtype()) if _is_number(array.type) else np.dtype(f"i{array.type.bit_width // 8}")
    )
    valid = valid_rows(array)
    values = _fixed_buffer(array, dtype, 1)
    return values if valid is None else np.where(valid, values, dtype.type(0))


def decimal_words(array: pa.Array) -> tuple[Int64Array, UInt64Array]:
    """The high (signed) and low 64 bits of a decimal128 column's unscaled values."""
    words = _fixed_buffer(array, np.dtype("<i8"), 2).reshape(-1, 2)
    valid = valid_rows(array)
    if valid is not None:
        words = np.where(valid[:, None], words, np.int64(0))
    return words[:, 1], words[:, 0].view(np.uint64)


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def _fixed_buffer(array: pa.Array, dtype: np.dtype[Any], per_row: int) -> npt.NDArray[Any]:
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(len(array) * per_row, dtype)
    start = array.offset * dtype.itemsize * per_row
    return np.frombuffer(buffer, dtype, len(array) * per_row, start)


def unaligned_words(data: UInt8Array) -> UInt64Array:
    """For each byte position of ``data`` but the last seven, the little-endian word that starts there (a view)."""
    words: UInt64Array = np.ndarray((max(len(data) - 7, 0),), np.dtype("<u8"), data, strides=(1,))
    return words


@dataclass(frozen=True)
class ByteValues:
    """Variable-length values: ``data`` with eight or more bytes to spare at its end, and each value's ``starts``
    and ``lengths`` in it."""

    data: UInt8Array
    starts: Int64Array
    lengths: Int64Array

    @staticmethod
    def of(array: pa.Array) -> ByteValues:
        """The values of a string or binary column (32-bit offsets)."""
        rows = len(array)
        _, offsets_buffer, data_buffer = array.buffers()
        if rows == 0 or offsets_buffer is None:
            return ByteValues(np.zeros(8, np.uint8), np.zeros(rows, np.int64), np.zeros(rows, np.int64))
        offsets = np.frombuffer(offsets_buffer, np.dtype("<i4"), rows + 1, array.offset * 4).astype(np.int64)
        first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        data = np.zeros(size + 8, np.uint8)
        if size:
            data[:size] = np.frombuffer(data_buffer, np.uint8, size, first)
        lengths = np.diff(offsets)
        valid = valid_rows(array)
        return ByteValues(data, offsets[:-1] - first, lengths if valid is None else np.where(valid, lengths, 0))

    def words(self, rows: Int64Array | slice, first: Int64Array | int) -> UInt64Array:
        """Eight bytes of each of ``rows``, from byte ``first`` of its value on, as little-endian words; bytes past
        the end of the value are zero. ``first`` may lie past the end."""
        left = np.clip(self.lengths[rows] - first, 0, 8)
        starts = np.where(left > 0, self.starts[rows] + first, 0)
        words: UInt64Array = unaligned_words(self.data)[starts] & _LOW_BYTES[left]
        return words


def positions_within(counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """For ``counts[i]`` items of each row i, one after another: the row of each item and its number in the row.

    Counts (2, 0, 1) give rows (0, 0, 2) and numbers (0, 1, 0).
    """
    rows = np.repeat(np.arange(len(counts)), counts)
    firsts = np.cumsum(counts) - counts
    return rows, np.arange(len(rows)) - firsts[rows]


def is_bytes(type_: DataType) -> bool:
    """Whether values of ``type_`` are of variable length."""
    return type_.root in STRINGS or type_.root in BINARIES


def binary_array(data: pa.Buffer, offsets: Int64Array) -> pa.BinaryArray:
    """The values between consecutive ``offsets`` of ``data``.

    :raises InvalidInput: more than 2 GiB
    """
    if offsets[-1] > MAX_BINARY:
        raise InvalidInput(f"{len(offsets) - 1} rows take {offsets[-1]} bytes, more than 2 GiB; pass fewer at a time")
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), data]
    )
