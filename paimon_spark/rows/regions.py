"""Regions: the rows, arrays and maps of Java's binary format inside of other bytes, and the slots of their values.

What is read here lies in a row or array, its *region*, and all that a region says about itself is held against its
length. Pieces may not lie outside of their region, nor take more bytes together than all regions have, so that what is
read is never larger than what it was read from. Layouts: ``binary_row``, ``binary_array``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_spark.errors import CorruptFile
from paimon_spark.rows.arrow_buffers import (
    BoolArray,
    Int64Array,
    UInt8Array,
    UInt64Array,
    positions_within,
    unaligned_words,
)
from paimon_spark.rows.row_layout import element_bytes, header_words, nulls_end
from paimon_spark.types import DataType

_ROW, _ARRAY, _MAP = "<BinaryRow>", "<BinaryArray>", "<BinaryMap>"
_LOW, _HIGH = np.uint64(0xFFFFFFFF), np.uint64(32)


@dataclass(frozen=True)
class Regions:
    """Rows, arrays or maps in ``data``, which has eight or more bytes to spare at its end: where each starts and its
    length. Those that are not ``present`` are nulls, with start and length 0."""

    data: UInt8Array
    starts: Int64Array
    lengths: Int64Array
    present: BoolArray

    @staticmethod
    def of(data: UInt8Array, starts: Int64Array, lengths: Int64Array, present: BoolArray) -> Regions:
        """Regions of which some are nulls, whatever their starts and lengths."""
        return Regions(data, np.where(present, starts, 0), np.where(present, lengths, 0), present)

    def words(self, at: Int64Array | int) -> UInt64Array:
        """The words that begin at byte ``at`` of each region."""
        words: UInt64Array = unaligned_words(self.data)[self.starts + at]
        return words

    def of_at_least(self, size: int, what: str) -> Regions:
        """These regions, all of ``size`` bytes or more, which may also be read where a null's region would be.

        :raises CorruptFile: one is shorter
        """
        short = self.present & (self.lengths < size)
        if short.any():
            length = self.lengths[short][0]
            raise CorruptFile(what, f"{length} bytes are too few, it takes {size}")
        if self.data.size >= size + 8:
            return self
        roomy = np.concatenate([self.data, np.zeros(size, np.uint8)])
        return Regions(roomy, self.starts, self.lengths, self.present)


@dataclass(frozen=True)
class SlotValues:
    """One slot of each of many values: the value's region, where in it the slot begins and pieces may begin, and what
    is in the slot, zero for values that are not ``present``.

    All pieces together may have ``limit`` bytes. ``name`` and ``field`` are for errors.
    """

    regions: Regions
    at: Int64Array | int
    behind: Int64Array | int
    values: UInt64Array
    present: BoolArray
    limit: int
    name: str
    field: str

    def pieces(self) -> tuple[Int64Array, Int64Array]:
        """Offset and length as slots tell them."""
        return (self.values >> _HIGH).astype(np.int64), (self.values & _LOW).astype(np.int64)

    def check(self, offsets: Int64Array, lengths: Int64Array) -> None:
        """Refuse pieces that do not lie behind the slots and inside their regions; empty ones do not matter."""
        outside = (lengths > 0) & ((offsets < self.behind) | (offsets + lengths > self.regions.lengths))
        if outside.any():
            value = int(outside.argmax())
            piece = f"bytes {offsets[value]} to {offsets[value] + lengths[value]}"
            raise CorruptFile(self.name, f"{self.field}: {piece} of {self.regions.lengths[value]} bytes")
        if lengths.sum() > self.limit:
            raise CorruptFile(self.name, f"{self.field}: values of {lengths.sum()} bytes in {self.limit} bytes")


def rows_of(regions: Regions, arity: int) -> Regions:
    """The regions as rows of ``arity`` fields.

    :raises CorruptFile: one is too short
    """
    return regions.of_at_least(8 * (header_words(arity) + arity), _ROW)


def row_slots(rows: Regions, arity: int, field: int) -> SlotValues:
    """The slots of one field of rows that :func:`rows_of` returned."""
    byte, bit = divmod(field + 8, 8)
    present = rows.present & ((rows.data[rows.starts + byte] >> np.uint8(bit)) & np.uint8(1) == 0)
    at = 8 * (header_words(arity) + field)
    values = np.where(present, rows.words(at), np.uint64(0))
    behind, limit = 8 * (header_words(arity) + arity), int(rows.lengths.sum())
    return SlotValues(rows, at, behind, values, present, limit, _ROW, f"field {field}")


def array_slots(regions: Regions, type_: DataType) -> tuple[Int64Array, SlotValues]:
    """How many elements each array has, and the slots of all of them.

    :raises CorruptFile: an array is too short for its elements
    """
    arrays, width = regions.of_at_least(8, _ARRAY), element_bytes(type_)
    counts = np.where(arrays.present, (arrays.words(0) & _LOW).astype(np.int64), 0)
    ends = nulls_end(counts)
    short = arrays.present & (ends + width * counts > arrays.lengths)
    if short.any():
        raise CorruptFile(_ARRAY, f"{arrays.lengths[short][0]} bytes are too few for {counts[short][0]} elements")
    owners, numbers = positions_within(counts)
    starts = arrays.starts[owners]
    everywhere = np.ones(len(owners), np.bool_)
    own = Regions(arrays.data, starts, arrays.lengths[owners], everywhere)
    present = (arrays.data[starts + 4 + numbers // 8] >> (numbers % 8).astype(np.uint8)) & np.uint8(1) == 0
    at = ends[owners] + width * numbers
    overlapping = np.ndarray((arrays.data.size - width + 1,), f"<u{width}", arrays.data, 0, (1,))
    values = np.where(present, overlapping[starts + at].astype(np.uint64), np.uint64(0))
    behind, limit = (ends + width * counts)[owners], int(arrays.lengths.sum())
    return counts, SlotValues(own, at, behind, values, present, limit, _ARRAY, f"elements of type {type_}")


def map_arrays(regions: Regions) -> tuple[Regions, Regions]:
    """The arrays of keys and of values of maps.

    :raises CorruptFile: a map is too short for its keys
    """
    maps = regions.of_at_least(4, _MAP)
    lengths = np.where(maps.present, (maps.words(0) & _LOW).astype(np.int64), 0)
    short = maps.present & (4 + lengths > maps.lengths)
    if short.any():
        raise CorruptFile(_MAP, f"{maps.lengths[short][0]} bytes are too few for keys of {lengths[short][0]}")
    keys = Regions.of(maps.data, maps.starts + 4, lengths, maps.present)
    return keys, Regions.of(maps.data, maps.starts + 4 + lengths, maps.lengths - 4 - lengths, maps.present)
