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
    ARRAY, MAP, MULTISET   offset << 32 | length                   ``binary_array``
    ROW                    offset << 32 | length                   a row
    null                   zero

A null of DECIMAL p > 18 or TIMESTAMP p > 3 still reserves its piece, of zeros, and its slot keeps the offset: so do
Java's projections to keys and partitions, whose bytes are compared and hashed.

The serialized form, which manifests hold, puts the number of fields before the row as a big-endian int32.

Source: ``BinaryRow``, ``BinaryRowWriter``, ``SerializationUtils`` of Apache Paimon.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.errors import InvalidInput
from paimon_spark.rows.arrow_buffers import (
    ByteValues,
    Column,
    Int64Array,
    UInt64Array,
    binary_array,
    plain_array,
    valid_rows,
)
from paimon_spark.rows.binary_array import arrays, list_parts, maps
from paimon_spark.rows.binary_row_reader import decode
from paimon_spark.rows.row_layout import header_words
from paimon_spark.rows.slots import Pieces, Slots, byte_slots, slots_of
from paimon_spark.types import NESTED, DataType

__all__ = ["EMPTY_ROW", "decode", "encode", "encode_nested", "members", "serialize"]

EMPTY_ROW = bytes(12)
"""The serialized row without fields: the partition of a table that is not partitioned."""

_COUNT = DataType("INT", nullable=False)


def encode(columns: Sequence[Column], types: Sequence[DataType], rows: int = 1) -> pa.BinaryArray:
    """The BinaryRow of each row, without the number of fields before it.

    ``columns`` have equal lengths and the Arrow types of ``types``. Without columns the result is ``rows`` rows
    of no fields; otherwise ``rows`` is ignored.

    :raises InvalidInput: an Arrow type does not fit its type, or the rows take more than 2 GiB
    """
    count = len(columns[0]) if columns else rows
    header = header_words(len(types))
    width = header + len(types)
    fixed = np.zeros((count, width), np.uint64)
    sizes = np.full(count, width, np.int64)
    placed: list[tuple[Pieces, Int64Array]] = []
    for i, (column, type_) in enumerate(zip(columns, types, strict=True)):
        array = plain_array(column, type_)
        _set_null_bits(fixed, i, array)
        slots = _slots(array, type_, reserve=True)
        if slots.pieces is None:
            fixed[:, header + i] = slots.values
        else:
            fixed[:, header + i] = slots.at(sizes)
            placed.append((slots.pieces, sizes))
            sizes = sizes + slots.pieces.sizes
    ends = np.cumsum(sizes)
    offsets = np.concatenate([np.zeros(1, np.int64), ends]) * 8
    if not placed:
        return binary_array(pa.py_buffer(fixed), offsets)
    words = np.zeros(int(ends[-1]) if count else 0, np.uint64)
    starts = ends - sizes
    words[starts[:, None] + np.arange(width)] = fixed
    for pieces, before in placed:
        pieces.write(words, starts + before)
    return binary_array(pa.py_buffer(words), offsets)


def serialize(columns: Sequence[Column], types: Sequence[DataType], rows: int = 1) -> list[bytes]:
    """The rows of :func:`encode` in their serialized form, for the few rows that metadata holds."""
    prefix = struct.pack(">i", len(types))
    return [prefix + row.as_buffer().to_pybytes() for row in encode(columns, types, rows)]


def encode_nested(array: pa.Array, type_: DataType) -> pa.BinaryArray:
    """The BinaryArray, BinaryMap or BinaryRow of each value of a nested type; any at a null.

    :raises InvalidInput: an Arrow type does not fit its type, or the values take more than 2 GiB
    """
    if type_.root == "ROW":
        return encode(*members(array, type_), len(array))
    counts, parts = list_parts(array)
    if type_.root == "ARRAY":
        return _arrays(counts, parts[0], type_.element_type())
    key, value = (
        (type_.element_type(), _COUNT) if type_.root == "MULTISET" else (type_.key_type(), type_.element_type())
    )
    return maps(_arrays(counts, parts[0], key), _arrays(counts, parts[-1], value))


def members(array: pa.Array, type_: DataType) -> tuple[list[pa.Array], list[DataType]]:
    """The columns that a column of a ROW type consists of, and their types; at a null they hold anything.

    :raises InvalidInput: not a column of structs of as many fields
    """
    if not pa.types.is_struct(array.type) or array.type.num_fields != len(type_.fields):
        raise InvalidInput(f"an Arrow column of structs is expected for {type_}, not of {array.type}")
    return [array.field(i) for i in range(len(type_.fields))], [field.type for field in type_.fields]


def _arrays(counts: Int64Array, elements: pa.Array, type_: DataType) -> pa.BinaryArray:
    elements = plain_array(elements, type_)
    return arrays(counts, _slots(elements, type_, reserve=False), valid_rows(elements), type_)


def _slots(array: pa.Array, type_: DataType, reserve: bool) -> Slots:
    if type_.root not in NESTED:
        return slots_of(array, type_, reserve)
    return byte_slots(ByteValues.of(encode_nested(array, type_)), valid_rows(array))


def _set_null_bits(fixed: UInt64Array, field: int, array: pa.Array) -> None:
    valid = valid_rows(array)
    if valid is not None:
        word, bit = divmod(field + 8, 64)
        fixed[:, word] |= (~valid).astype(np.uint64) << np.uint64(bit)
