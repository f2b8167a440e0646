"""Compact rows: the encoding of keys and values in lookup files.

Byte layout, all little-endian, without padding::

    byte 0            row kind
    null bits         field i is bit 8 + i, least significant first; with byte 0 (n + 8 + 7) / 8 bytes
    fields            those that are not null, in order

    BOOLEAN, TINYINT  1          SMALLINT  2      INT, DATE, TIME, FLOAT  4     BIGINT, DOUBLE  8
    CHAR, VARCHAR, BINARY, VARBINARY              varint length | bytes
    DECIMAL           p <= 18: int64 unscaled     else: varint length | big-endian two's complement, shortest
    TIMESTAMP         p <= 3: int64 milliseconds  else: int64 milliseconds | varint nanoseconds within
    ARRAY             varint length | BinaryArray (``binary_array``)
    MAP, MULTISET     varint length | BinaryMap (``binary_array``)
    ROW               varint length | compact row

A ROW inside of an ARRAY, MAP or MULTISET is a BinaryRow.

    (INT 7, STRING 'hello', BIGINT null) is  00 04 07000000 05 68656c6c6f

Source: ``RowCompactedSerializer`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import to_arrow
from paimon_spark.errors import CorruptFile, UnsupportedFeature
from paimon_spark.rows.arrow_buffers import Column, decimal_words, numbers, plain_array, shown_rows, valid_rows
from paimon_spark.rows.binary_row import encode_nested, members
from paimon_spark.rows.binary_row_reader import decode_nested
from paimon_spark.rows.byte_strings import (
    EMPTY,
    Bytes,
    Int64s,
    Mask,
    matrix_strings,
    offsets_and_bytes,
    read_varints,
    rows_at,
    strings_at,
    varints,
)
from paimon_spark.rows.byte_strings import binary_array as strings
from paimon_spark.rows.regions import Regions
from paimon_spark.rows.row_layout import is_wide_decimal, is_wide_timestamp
from paimon_spark.types import BINARIES, NESTED, STRINGS, TIMESTAMPS, DataType, arrow_type

_ROW = "<compact row>"
_WIDTHS = {
    **dict.fromkeys(("BOOLEAN", "TINYINT"), 1),
    "SMALLINT": 2,
    **dict.fromkeys(("INT", "DATE", "TIME", "FLOAT"), 4),
    **dict.fromkeys(("BIGINT", "DOUBLE", "DECIMAL", *TIMESTAMPS), 8),
}


def header_size(arity: int) -> int:
    """Bytes before the first field of a row of ``arity`` fields."""
    return (arity + 8 + 7) // 8


def fixed_width(type_: DataType) -> int | None:
    """Bytes of every value of ``type_`` that is not null; None when they vary."""
    return None if is_wide_decimal(type_) or is_wide_timestamp(type_) else _WIDTHS.get(type_.root)


def encode(columns: Sequence[Column], types: Sequence[DataType], kind: int = 0) -> pa.BinaryArray:
    """The compact row of each row, of that kind.

    Requires: at least one column; equal lengths; the Arrow types of ``types``.

    :raises InvalidInput: an Arrow type does not fit its type
    """
    return _encode(columns, types, len(columns[0]), kind)


def _encode(columns: Sequence[Column], types: Sequence[DataType], count: int, kind: int = 0) -> pa.BinaryArray:
    arrays = [plain_array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    pieces = [_header(arrays, count, kind)]
    for array, type_ in zip(arrays, types, strict=True):
        pieces += _pieces(array, type_)
    return pc.binary_join_element_wise(*pieces, EMPTY)


def _header(arrays: Sequence[pa.Array], count: int, kind: int) -> pa.BinaryArray:
    width = header_size(len(arrays))
    header = np.zeros((count, width), np.uint8)
    header[:, 0] = kind
    for i, array in enumerate(arrays):
        valid = valid_rows(array)
        if valid is not None:
            byte, bit = divmod(8 + i, 8)
            header[:, byte] |= (~valid).astype(np.uint8) << np.uint8(bit)
    return _fixed(header, None)


def _pieces(array: pa.Array, type_: DataType) -> list[pa.BinaryArray]:
    """The parts of each value, to be joined; empty for a null."""
    valid = valid_rows(array)
    if type_.root in STRINGS or type_.root in BINARIES:
        return _with_length(array.cast(pa.binary()), valid)
    if is_wide_decimal(type_):
        return _with_length(_blank(_shortest_decimals(array), valid), valid)
    if type_.root == "ROW":
        return _with_length(_blank(_encode(*members(array, type_), len(array)), valid), valid)
    if type_.root in NESTED:
        return _with_length(_blank(encode_nested(array, type_), valid), valid)
    if type_.root == "DECIMAL":
        return [_number(decimal_words(array)[1], valid)]
    values = numbers(array)
    if is_wide_timestamp(type_):
        units, nanos = (1_000, 1_000) if array.type.unit == "us" else (1_000_000, 1)
        millis, rest = np.divmod(values, np.int64(units))
        return [_number(millis, valid), _blank(varints(rest * nanos), valid)]
    return [_number(values, valid)]


def _with_length(texts: pa.BinaryArray, valid: Mask | None) -> list[pa.BinaryArray]:
    texts = texts.fill_null(EMPTY) if texts.null_count else texts
    return [_blank(varints(np.diff(offsets_and_bytes(texts)[0])), valid), texts]


def _blank(texts: pa.BinaryArray, valid: Mask | None) -> pa.BinaryArray:
    return texts if valid is None else pc.if_else(to_arrow(valid), texts, EMPTY)


def _number(values: npt.NDArray[Any], valid: Mask | None) -> pa.BinaryArray:
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return _fixed(little.view(np.uint8).reshape(len(values), values.dtype.itemsize), valid)


def _fixed(matrix: Bytes, valid: Mask | None) -> pa.BinaryArray:
    """One string a row; empty where not valid."""
    if valid is None:
        return matrix_strings(matrix)
    ends = np.cumsum(valid) * matrix.shape[1]
    return strings(np.concatenate((np.zeros(1, np.int64), ends)), matrix[valid].reshape(-1))


def _shortest_decimals(array: pa.Array) -> pa.BinaryArray:
    """Each value's shortest two's complement, big-endian."""
    high, low = decimal_words(array)
    full = np.stack((high.view(np.uint64), low), axis=1).astype(">u8").view(np.uint8).reshape(-1, 16)
    sign = np.where(high < 0, np.uint8(0xFF), np.uint8(0))[:, None]
    differs = np.concatenate((full[:, :-1] != sign, np.ones((len(full), 1), np.bool_)), axis=1)
    first = differs.argmax(axis=1)
    # The highest bit must show the sign, which may take one more byte.
    first -= (full[np.arange(len(full)), first] ^ sign[:, 0]) >= 0x80
    keep = np.arange(16) >= first[:, None]
    ends = np.cumsum(16 - first)
    return strings(np.concatenate((np.zeros(1, np.int64), ends)), full[keep])


@dataclass
class _Cursor:
    """Where the next field of each row starts, in memory that has eight or more bytes to spare at its end."""

    memory: Bytes
    at: Int64s
    ends: Int64s

    def numbers(self, present: Mask, width: int, dtype: str) -> npt.NDArray[Any]:
        """A number of ``width`` bytes of each row; zero, and nothing read, where not ``present``."""
        starts = np.where(present, self.at, 0)
        self.at = self.at + present * width
        self.check()
        found = rows_at(self.memory, starts, width)
        found[~present] = 0
        return found.view(dtype).reshape(-1)

    def lengths(self, present: Mask) -> Int64s:
        """A variable-length number of each row; zero, and nothing read, where not ``present``."""
        values, ends = read_varints(self.memory, np.where(present, self.at, 0))
        if bool((values[present] < 0).any()):
            raise CorruptFile(_ROW, "a length does not end")
        self.at = np.where(present, ends, self.at)
        self.check()
        return values * present

    def texts(self, present: Mask) -> tuple[Int64s, Int64s]:
        """Start and length of a string of each row; the length is zero where not ``present``."""
        lengths = self.lengths(present)
        starts = self.at
        self.at = self.at + lengths
        self.check()
        return starts, lengths

    def strings(self, present: Mask) -> pa.BinaryArray:
        """A string of each row; empty or null where not ``present``."""
        return strings_at(self.memory, *self.texts(present), None if present.all() else present)

    def fields(self, types: Sequence[DataType], present: Mask) -> list[pa.Array]:
        """The fields of the rows that begin here; those of rows that are not ``present`` are null, or empty."""
        width = header_size(len(types))
        if self.memory.size < width:
            self.memory = np.concatenate((self.memory, np.zeros(width, np.uint8)))
        starts = np.where(present, self.at, 0)
        self.at = self.at + present * width
        self.check()
        header = rows_at(self.memory, starts, width)
        arrays = []
        for i, type_ in enumerate(types):
            byte, bit = divmod(8 + i, 8)
            has_value = present & ((header[:, byte] >> np.uint8(bit)) & 1 == 0)
            arrays.append(_column(self, type_, has_value, shown_rows(has_value, present, type_.nullable)))
        return arrays

    def check(self) -> None:
        """Refuse rows that end before what was read."""
        if bool((self.at > self.ends).any()):
            raise CorruptFile(_ROW, "a row ends inside a field")


def decode(rows: pa.BinaryArray, types: Sequence[DataType]) -> list[pa.Array]:
    """The fields of compact rows as Arrow columns of ``arrow_type``; the row kind is not looked at.

    Bytes behind the last field are an error.

    :raises CorruptFile: a row contradicts the layout or the types
    :raises UnsupportedFeature: a TIMESTAMP(9) beyond the years 1677 to 2262
    """
    arrays, ends, offsets = decode_fields(rows, types)
    if bool((ends != offsets[1:]).any()):
        raise CorruptFile(_ROW, "a row is longer than its fields")
    return arrays


def decode_fields(rows: pa.BinaryArray, types: Sequence[DataType]) -> tuple[list[pa.Array], Int64s, Int64s]:
    """Like :func:`decode`, but rows may have more bytes; also where each row's fields end, and the rows' offsets."""
    offsets, data = offsets_and_bytes(rows)
    cursor = _Cursor(np.concatenate((data, np.zeros(8, np.uint8))), offsets[:-1], offsets[1:])
    arrays = cursor.fields(types, np.ones(len(rows), np.bool_))
    for i, (array, type_) in enumerate(zip(arrays, types, strict=True)):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as problem:
            raise CorruptFile(_ROW, f"field {i} of type {type_}: {problem}") from problem
    return arrays, cursor.at, offsets


def _column(cursor: _Cursor, type_: DataType, present: Mask, shown: Mask | None) -> pa.Array:
    """The next field of each row that has it (``present``); null where not ``shown``, None meaning nowhere."""
    arrow = arrow_type(type_)
    if type_.root in STRINGS or type_.root in BINARIES:
        buffers = cursor.strings(present).buffers()
        return pa.Array.from_buffers(arrow, len(present), [_validity(shown), *buffers[1:]])
    if is_wide_decimal(type_):
        return _wide_decimals(cursor.strings(present), arrow, present, shown)
    if type_.root == "ROW":
        return _rows(cursor, type_, present, shown)
    if type_.root in NESTED:
        return decode_nested(Regions.of(cursor.memory, *cursor.texts(present), present), type_, shown)
    width = fixed_width(type_) or 8
    values = cursor.numbers(present, width, f"<f{width}" if type_.root in ("FLOAT", "DOUBLE") else f"<i{width}")
    if is_wide_timestamp(type_):
        values = _wide_timestamps(values, cursor.lengths(present), type_)
    if type_.root == "DECIMAL":
        values = np.stack((values, values >> 63), axis=1)
    return _plain(values, arrow, shown)


def _rows(cursor: _Cursor, type_: DataType, present: Mask, shown: Mask | None) -> pa.Array:
    starts, lengths = cursor.texts(present)
    starts = np.where(present, starts, 0)
    inner = _Cursor(cursor.memory, starts, starts + lengths)
    columns = inner.fields([field.type for field in type_.fields], present)
    if bool((inner.at != inner.ends).any()):
        raise CorruptFile(_ROW, "a row inside of a row is longer than its fields")
    return pa.Array.from_buffers(arrow_type(type_), len(present), [_validity(shown)], children=columns)


def _validity(shown: Mask | None) -> pa.Buffer | None:
    return None if shown is None else pa.py_buffer(np.packbits(shown, bitorder="little"))


def _plain(values: npt.NDArray[Any], arrow: pa.DataType, shown: Mask | None) -> pa.Array:
    count = len(values)
    if arrow == pa.bool_():
        if bool((values & ~1).any()):
            raise CorruptFile(_ROW, "a boolean is neither 0 nor 1")
        values = np.packbits(values.astype(np.bool_), bitorder="little")
    return pa.Array.from_buffers(arrow, count, [_validity(shown), pa.py_buffer(np.ascontiguousarray(values))])


def _wide_timestamps(millis: Int64s, nanos: Int64s, type_: DataType) -> Int64s:
    if bool((nanos > 999_999).any()):
        raise CorruptFile(_ROW, "a timestamp has more nanoseconds than a millisecond")
    if arrow_type(type_).unit == "us":
        if bool((np.abs(millis) > 2**63 // 1_000 - 1).any()):
            raise CorruptFile(_ROW, f"a value is out of the range of {type_}")
        return millis * 1_000 + nanos // 1_000
    if bool((np.abs(millis) > 2**63 // 1_000_000 - 1).any()):
        raise UnsupportedFeature("a TIMESTAMP(9) beyond the years 1677 to 2262 is not supported")
    return millis * 1_000_000 + nanos


def _wide_decimals(texts: pa.BinaryArray, arrow: pa.DataType, present: Mask, shown: Mask | None) -> pa.Array:
    offsets, data = offsets_and_bytes(texts)
    lengths = np.diff(offsets)
    if bool((lengths > 16).any()) or bool((lengths[present] == 0).any()):
        raise CorruptFile(_ROW, "a decimal has no byte or more than 16")
    negative = np.zeros(len(lengths), np.bool_)
    negative[present] = data[offsets[:-1][present]] >= 0x80
    full = np.where(negative, np.uint8(0xFF), np.uint8(0))[:, None].repeat(16, axis=1)
    full[np.arange(16) >= (16 - lengths)[:, None]] = data[int(offsets[0]) : int(offsets[-1])]
    words = full.view(">u8").astype("<u8")
    return _plain(words[:, ::-1], arrow, shown)
