"""BinaryRow, reading: serialized rows (layout in ``binary_row.py``) to Arrow columns.

Everything that a row claims about itself is checked against its length. Both forms of a null are read: with and
without a reserved piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.errors import CorruptFile, InvalidInput, UnsupportedFeature
from paimon_spark.rows.arrow_buffers import (
    MAX_BINARY,
    BoolArray,
    Int64Array,
    UInt8Array,
    UInt64Array,
    is_bytes,
    positions_within,
    unaligned_words,
)
from paimon_spark.rows.row_layout import header_words, is_wide_decimal, is_wide_timestamp
from paimon_spark.types import NESTED, DataType, arrow_type

_ROW = "<BinaryRow>"
_PREFIX = 4
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)


def decode(rows: Sequence[bytes], types: Sequence[DataType], columns: Sequence[int] | None = None) -> list[pa.Array]:
    """The fields of serialized rows as Arrow columns of ``arrow_type``, one per index in ``columns`` (default all).

    Fields of nested types must be null. A fraction that a timestamp type has no digits for is cut off.

    :raises CorruptFile: number of fields, lengths, offsets or values contradict the layout or the types
    :raises UnsupportedFeature: a nested value, or a TIMESTAMP(9) beyond the years 1677 to 2262
    """
    wanted = range(len(types)) if columns is None else columns
    serialized = _Rows.of(rows, len(types))
    arrays = []
    for i in wanted:
        array = _column(serialized, i, types[i])
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as problem:
            raise CorruptFile(_ROW, f"field {i} of type {types[i]}: {problem}") from problem
        arrays.append(array)
    return arrays


@dataclass(frozen=True)
class _Rows:
    """Serialized rows one after another: their bytes with eight to spare, the start of each row's byte 0, and
    its length."""

    data: UInt8Array
    starts: Int64Array
    lengths: Int64Array
    arity: int

    @staticmethod
    def of(rows: Sequence[bytes], arity: int) -> _Rows:
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        starts = np.cumsum(lengths) - lengths
        data = np.frombuffer(b"".join(rows) + bytes(8), np.uint8)
        least = _PREFIX + 8 * (header_words(arity) + arity)
        if len(rows) and lengths.min() < least:
            raise CorruptFile(_ROW, f"{lengths.min()} bytes are too few for {arity} fields, which take {least}")
        found = (unaligned_words(data)[starts] & _LOW).astype(np.uint32).byteswap()
        if (found != arity).any():
            raise CorruptFile(_ROW, f"a row of {found[found != arity][0]} fields where {arity} are expected")
        return _Rows(data, starts + _PREFIX, lengths - _PREFIX, arity)

    def words(self, at: Int64Array) -> UInt64Array:
        """The words that begin at byte ``at`` of each row."""
        words: UInt64Array = unaligned_words(self.data)[self.starts + at]
        return words

    def nulls(self, field: int) -> BoolArray:
        """Which rows' ``field`` is null."""
        byte, bit = divmod(field + 8, 8)
        flags: BoolArray = (self.data[self.starts + byte] >> np.uint8(bit)) & np.uint8(1) != 0
        return flags

    def slot(self, field: int) -> int:
        """The byte of a row where the slot of ``field`` begins."""
        return 8 * (header_words(self.arity) + field)

    def check_pieces(self, field: int, offsets: Int64Array, lengths: Int64Array) -> None:
        """Refuse a piece that does not lie behind the slots and inside its row."""
        outside = (lengths > 0) & ((offsets < self.slot(self.arity)) | (offsets + lengths > self.lengths))
        if outside.any():
            row = int(outside.argmax())
            piece = f"bytes {offsets[row]} to {offsets[row] + lengths[row]}"
            raise CorruptFile(_ROW, f"field {field}: {piece} of a row of {self.lengths[row]} bytes")


def _column(rows: _Rows, field: int, type_: DataType) -> pa.Array:
    nulls = rows.nulls(field)
    slots = np.where(nulls, np.uint64(0), rows.words(np.full(len(rows.starts), rows.slot(field))))
    if is_bytes(type_):
        return _bytes_column(rows, field, type_, slots, nulls)
    if type_.root in NESTED:
        if not nulls.all():
            raise UnsupportedFeature(f"field {field} of a BinaryRow holds a value of type {type_}")
        return pa.nulls(len(nulls), arrow_type(type_))
    if is_wide_decimal(type_):
        high, low = _wide_decimals(rows, field, slots)
        return _fixed_array(np.stack([low, high], axis=1), nulls, type_)
    if type_.root == "DECIMAL":
        low = slots.view(np.int64)
        return _fixed_array(np.stack([low, low >> 63], axis=1), nulls, type_)
    if is_wide_timestamp(type_):
        return _fixed_array(_wide_timestamps(rows, field, type_, slots, nulls), nulls, type_)
    if type_.root == "BOOLEAN":
        return to_arrow((slots & np.uint64(0xFF)) != 0, ~nulls)
    width = arrow_type(type_).bit_width // 8
    return _fixed_array(slots.astype(np.dtype(f"u{width}")), nulls, type_)


def _fixed_array(values: npt.NDArray[Any], nulls: BoolArray, type_: DataType) -> pa.Array:
    return pa.Array.from_buffers(
        arrow_type(type_), len(nulls), [_validity(nulls), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _validity(nulls: BoolArray) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None


def _bytes_column(rows: _Rows, field: int, type_: DataType, slots: UInt64Array, nulls: BoolArray) -> pa.Array:
    marks = (slots >> np.uint64(56)).astype(np.int64)
    inline = marks >= 0x80
    if (inline & (marks > 0x87)).any():
        raise CorruptFile(_ROW, f"field {field}: a value in its slot claims more than 7 bytes")
    lengths = np.where(inline, marks - 0x80, (slots & _LOW).astype(np.int64))
    offsets = np.where(inline, rows.slot(field), (slots >> _HIGH).astype(np.int64))
    rows.check_pieces(field, np.where(inline, rows.slot(rows.arity), offsets), np.where(inline, 0, lengths))
    ends = np.cumsum(lengths)
    if len(ends) and ends[-1] > MAX_BINARY:
        raise InvalidInput(f"field {field} of {len(ends)} BinaryRows takes more than 2 GiB; decode fewer at a time")
    value_rows, numbers = positions_within(lengths)
    data = rows.data[(rows.starts + offsets)[value_rows] + numbers]
    bounds = np.zeros(len(ends) + 1, np.int32)
    bounds[1:] = ends
    return pa.Array.from_buffers(
        arrow_type(type_), len(ends), [_validity(nulls), pa.py_buffer(bounds), pa.py_buffer(data)]
    )


def _wide_decimals(rows: _Rows, field: int, slots: UInt64Array) -> tuple[Int64Array, Int64Array]:
    lengths, offsets = (slots & _LOW).astype(np.int64), (slots >> _HIGH).astype(np.int64)
    if (lengths > 16).any():
        raise CorruptFile(_ROW, f"field {field}: a decimal of {lengths.max()} bytes, more than 16")
    rows.check_pieces(field, offsets, lengths)
    starts = rows.starts + np.where(lengths > 0, offsets, 0)
    sign = np.where((lengths > 0) & (rows.data[starts] >= 0x80), np.uint8(0xFF), np.uint8(0))
    source = np.arange(16) - (16 - lengths)[:, None]
    full = np.where(source < 0, sign[:, None], rows.data[starts[:, None] + np.maximum(source, 0)])
    words = full.view(np.dtype(">u8")).astype(np.uint64).view(np.int64)
    return words[:, 0], words[:, 1]


def _wide_timestamps(rows: _Rows, field: int, type_: DataType, slots: UInt64Array, nulls: BoolArray) -> Int64Array:
    nanos, offsets = (slots & _LOW).astype(np.int64), (slots >> _HIGH).astype(np.int64)
    if (nanos >= 1_000_000).any():
        raise CorruptFile(_ROW, f"field {field}: {nanos.max()} nanoseconds within a millisecond")
    rows.check_pieces(field, offsets, np.where(nulls, 0, 8))
    millis = np.where(nulls, 0, rows.words(np.where(nulls, 0, offsets)).view(np.int64))
    units, finer = (1_000, 1_000) if arrow_type(type_).unit == "us" else (1_000_000, 1)
    limit = (2**63 - 1) // units - 1
    if ((millis > limit) | (millis < -limit)).any():
        raise UnsupportedFeature(f"field {field}: a {type_} beyond the range of {arrow_type(type_)}")
    values: Int64Array = millis * units + nanos // finer
    return values
