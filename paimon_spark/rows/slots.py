"""Slots and pieces: what the rows and arrays of Java's binary format are made of, a whole column at a time.

A value has a slot of fixed width. A value that does not fit has a piece as well, whole words behind all slots of its
row or array, and its slot tells where: ``offset << 32 | length``. Where that is, is known only when the sizes of the
pieces before are; so a column is first turned into slots without offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.rows.arrow_buffers import (
    BoolArray,
    ByteValues,
    Int64Array,
    UInt8Array,
    UInt64Array,
    decimal_words,
    is_bytes,
    numbers,
    positions_within,
    valid_rows,
)
from paimon_spark.rows.row_layout import has_piece, is_wide_decimal, is_wide_timestamp
from paimon_spark.types import DataType

_INLINE = 7
_OFFSET = np.uint64(32)


@dataclass(frozen=True)
class Pieces:
    """The pieces of a column: how many words each value has, all of those words, and whose slot tells an offset."""

    sizes: Int64Array
    words: UInt64Array
    placed: BoolArray

    def write(self, out: UInt64Array, at: Int64Array) -> None:
        """Put each value's words into ``out`` from index ``at`` on."""
        values, numbers = positions_within(self.sizes)
        out[at[values] + numbers] = self.words


@dataclass(frozen=True)
class Slots:
    """The slots of a column, zero under a null; without the offsets of its pieces, if its type has any."""

    values: UInt64Array
    pieces: Pieces | None = None

    def at(self, offsets: Int64Array) -> UInt64Array:
        """The slots when the pieces begin at those words of their rows or arrays. Requires: there are pieces."""
        assert self.pieces is not None
        places = (offsets * 8).astype(np.uint64) << _OFFSET
        slots: UInt64Array = self.values | np.where(self.pieces.placed, places, np.uint64(0))
        return slots


def slots_of(array: pa.Array, type_: DataType, reserve: bool) -> Slots:
    """The slots of a column that is not nested; with ``reserve``, a null of a type whose values all have pieces of one
    size has a piece too, of zeros."""
    if not has_piece(type_):
        return Slots(_numbers(array, type_))
    if is_bytes(type_):
        return byte_slots(ByteValues.of(array), valid_rows(array), _INLINE)
    if is_wide_decimal(type_):
        values, words = _shortest_decimals(array)
        size = 2
    else:
        assert is_wide_timestamp(type_)
        units, nanos = (1_000, 1_000) if array.type.unit == "us" else (1_000_000, 1)
        millis, rest = np.divmod(numbers(array), np.int64(units))
        values, words = (rest * nanos).view(np.uint64), millis.view(np.uint64)
        size = 1
    valid = valid_rows(array)
    if valid is None or reserve:
        return Slots(values, Pieces(np.full(len(array), size), words, np.ones(len(array), np.bool_)))
    return Slots(values, Pieces(valid * size, words.reshape(-1, size)[valid].reshape(-1), valid))


def byte_slots(values: ByteValues, valid: BoolArray | None, inline: int = -1) -> Slots:
    """The slots of byte strings, null where not ``valid``; those of up to ``inline`` bytes are in their slots."""
    lengths = values.lengths.astype(np.uint64)
    long = values.lengths > inline
    if valid is not None:
        long &= valid
    sizes = np.where(long, (values.lengths + 7) // 8, 0)
    rows, numbers = positions_within(sizes)
    pieces = Pieces(sizes, values.words(rows, numbers * 8), long)
    short = values.words(slice(None), 0) | (lengths | np.uint64(0x80)) << np.uint64(56)
    slots = np.where(long, lengths, short)
    return Slots(slots if valid is None else np.where(valid, slots, np.uint64(0)), pieces)


def _numbers(array: pa.Array, type_: DataType) -> UInt64Array:
    if type_.root == "DECIMAL":
        return decimal_words(array)[1]
    values = numbers(array)
    return values.view(f"u{values.dtype.itemsize}").astype(np.uint64)


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
