"""BinaryRow, writing: Arrow columns to the bytes of keys, partitions and column bounds.

Byte layout of a row of n fields, all little-endian, a multiple of eight bytes long::

    byte 0                 row kind, 0 in stored rows
    bits 8 .. 8 + n        null bits, least significant first; the header is ((n + 63 + 8) / 64) words
    n slots of 8 bytes     one per field
    pieces                 in field order, each padded with zeros to 8 bytes; a slot names its piece by the
                           word  (offset from byte 0 of the row) << 32 | length

    type                   slot                                    piece
    BOOLEAN, ints          two's complement, upper bytes zero
    DATE, TIME             int32 days, int32 milliseconds
    FLOAT, DOUBLE          IEEE bits as they are
    DECIMAL p <= 18        unscaled int64
    TIMESTAMP p <= 3       int64 milliseconds since the epoch
    strings, bytes <= 7    the bytes, then 0x80 | length in byte 7
    strings, bytes >= 8    offset << 32 | length                   the bytes
    DECIMAL p > 18         offset << 32 | length                   16 bytes: unscaled value, big-endian, shortest
                                                                   two's complement, then zeros
    TIMESTAMP p > 3        offset << 32 | nanoseconds within ms    8 bytes: int64 milliseconds
    null                   zero

A null of the last two kinds still reserves its piece, of zeros, and its slot keeps the offset: so do Java's
projections to keys and partitions, whose bytes are compared and hashed.

The serialized form, which manifests hold, puts the number of fields before the row as a big-endian int32.

Source: ``BinaryRow``, ``BinaryRowWriter``, ``SerializationUtils`` of Apache Paimon.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.errors import UnsupportedFeature
from paimon_spark.rows.arrow_buffers import (
    ByteValues,
    Column,
    Int64Array,
    UInt8Array,
    UInt64Array,
    binary_array,
    decimal_words,
    is_bytes,
    numbers,
    plain_array,
    positions_within,
    valid_rows,
)
from paimon_spark.rows.binary_row_reader import decode
from paimon_spark.rows.row_layout import has_piece, header_words, is_wide_decimal, is_wide_timestamp
from paimon_spark.types import NESTED, DataType

__all__ = ["EMPTY_ROW", "decode", "encode", "serialize"]

EMPTY_ROW = bytes(12)
"""The serialized row without fields: the partition of a table that is not partitioned."""

_INLINE = 7
_OFFSET = np.uint64(32)


def encode(columns: Sequence[Column], types: Sequence[DataType], rows: int = 1) -> pa.BinaryArray:
    """The BinaryRow of each row, without the number of fields before it.

    ``columns`` have equal lengths and the Arrow types of ``types``. Without columns the result is ``rows`` rows
    of no fields; otherwise ``rows`` is ignored. Columns of nested types must be null throughout.

    :raises InvalidInput: an Arrow type does not fit its type, or the rows take more than 2 GiB
    :raises UnsupportedFeature: a nested value
    """
    count = len(columns[0]) if columns else rows
    header = header_words(len(types))
    width = header + len(types)
    fixed = np.zeros((count, width), np.uint64)
    sizes = np.full(count, width, np.int64)
    pieces: list[tuple[_Pieces, Int64Array]] = []
    for i, (column, type_) in enumerate(zip(columns, types, strict=True)):
        array = plain_array(column, type_)
        _set_null_bits(fixed, i, array)
        if has_piece(type_):
            fixed[:, header + i], own = _slots_with_pieces(array, type_, sizes)
            pieces.append((own, sizes))
            sizes = sizes + own.sizes
        else:
            fixed[:, header + i] = _slots(array, type_)
    ends = np.cumsum(sizes)
    offsets = np.concatenate([np.zeros(1, np.int64), ends]) * 8
    if not pieces:
        return binary_array(pa.py_buffer(fixed), offsets)
    words = np.zeros(int(ends[-1]) if count else 0, np.uint64)
    starts = ends - sizes
    words[starts[:, None] + np.arange(width)] = fixed
    for own, before in pieces:
        own.write(words, starts + before)
    return binary_array(pa.py_buffer(words), offsets)


def serialize(columns: Sequence[Column], types: Sequence[DataType], rows: int = 1) -> list[bytes]:
    """The rows of :func:`encode` in their serialized form, for the few rows that metadata holds."""
    prefix = struct.pack(">i", len(types))
    return [prefix + row.as_buffer().to_pybytes() for row in encode(columns, types, rows)]


def _set_null_bits(fixed: UInt64Array, field: int, array: pa.Array) -> None:
    valid = valid_rows(array)
    if valid is not None:
        word, bit = divmod(field + 8, 64)
        fixed[:, word] |= (~valid).astype(np.uint64) << np.uint64(bit)


def _slots(array: pa.Array, type_: DataType) -> UInt64Array:
    """The slots of a type whose value is in the slot."""
    if type_.root == "DECIMAL":
        return decimal_words(array)[1]
    if type_.root in NESTED:
        if array.null_count < len(array):
            raise UnsupportedFeature(f"a value of type {type_} cannot be part of a key, a partition or a bound")
        return np.zeros(len(array), np.uint64)
    values = numbers(array)
    return values.view(f"u{values.dtype.itemsize}").astype(np.uint64)


@dataclass(frozen=True)
class _Pieces:
    """One column's pieces: how many words each row has, and all of those words."""

    sizes: Int64Array
    words: UInt64Array

    def write(self, out: UInt64Array, at: Int64Array) -> None:
        """Put each row's words into ``out`` from index ``at`` on."""
        rows, numbers = positions_within(self.sizes)
        out[at[rows] + numbers] = self.words


def _slots_with_pieces(array: pa.Array, type_: DataType, at: Int64Array) -> tuple[UInt64Array, _Pieces]:
    """The slots and pieces of a type that has pieces, which begin at word ``at`` of each row."""
    if is_bytes(type_):
        return _byte_slots(array, at)
    offsets = (at * 8).astype(np.uint64) << _OFFSET
    if is_wide_decimal(type_):
        lengths, words = _shortest_decimals(array)
        return offsets | lengths, _Pieces(np.full(len(array), 2, np.int64), words)
    assert is_wide_timestamp(type_)
    units, nanos = (1_000, 1_000) if array.type.unit == "us" else (1_000_000, 1)
    millis, rest = np.divmod(numbers(array), np.int64(units))
    pieces = _Pieces(np.ones(len(array), np.int64), millis.view(np.uint64))
    return offsets | (rest * nanos).view(np.uint64), pieces


def _byte_slots(array: pa.Array, at: Int64Array) -> tuple[UInt64Array, _Pieces]:
    values = ByteValues.of(array)
    long = values.lengths > _INLINE
    sizes = np.where(long, (values.lengths + 7) // 8, 0)
    rows, numbers = positions_within(sizes)
    pieces = _Pieces(sizes, values.words(rows, numbers * 8))
    lengths = values.lengths.astype(np.uint64)
    inline = values.words(slice(None), 0) | (lengths | np.uint64(0x80)) << np.uint64(56)
    slots = np.where(long, (at * 8).astype(np.uint64) << _OFFSET | lengths, inline)
    valid = valid_rows(array)
    return (slots if valid is None else np.where(valid, slots, np.uint64(0))), pieces


def _shortest_decimals(array: pa.Array) -> tuple[UInt64Array, UInt64Array]:
    """The length in bytes of each value's shortest two's complement, and two words each: those bytes, big-endian,
    then zeros. A null has length 0."""
    high, low = decimal_words(array)
    full = _big_endian(high.view(np.uint64), low)
    sign = np.where(high < 0, np.uint8(0xFF), np.uint8(0))
    differs = full != sign[:, None]
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), 15)
    keeps_sign = (full[np.arange(len(full)), first] ^ sign) < 0x80
    lengths = 16 - first + ~keeps_sign
    source = np.arange(16) + (16 - lengths)[:, None]
    shifted = np.take_along_axis(full, np.minimum(source, 15), axis=1)
    shifted[source > 15] = 0
    valid = valid_rows(array)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    return lengths.astype(np.uint64), shifted.view(np.dtype("<u8")).reshape(-1)


def _big_endian(high: UInt64Array, low: UInt64Array) -> UInt8Array:
    """The 16 bytes of each 128-bit number, most significant first."""
    pairs = np.stack([high, low], axis=1).astype(np.dtype(">u8"))
    return pairs.view(np.uint8).reshape(-1, 16)
