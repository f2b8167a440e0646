"""The values of a hash file: records of a length and so many bytes, read many at a time.

::

    record    varint length | bytes

Where a record ends is known only when its length has been read. So a batch asks for as many bytes behind each start
as the longest record so far had, and once more for the few that are longer.

Records of one length that lie end to end, which is what values of fixed width make, are rows of a table; these are
taken by their numbers, at half the price of strings at any address.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.page_cache import AddressSpace
from paimon_spark.rows.byte_strings import (
    Bytes,
    Int64s,
    binary_array,
    joined_strings,
    offsets_and_bytes,
    read_varint,
    read_varints,
    strings_at,
)

_LONGEST_LENGTH = 5
_FARTHEST = 2**16
_WIDEST = 256


class Records:
    """The records of one file."""

    def __init__(self, path: str, space: AddressSpace) -> None:
        """The records in ``space``, which the file at ``path`` fills."""
        self._path = path
        self._space = space
        self._reach = _LONGEST_LENGTH

    def read(self, starts: Int64s) -> pa.BinaryArray:
        """The bytes of the record at each start; null where the start is 0.

        :raises CorruptFile: a record reaches over the end of the file
        :raises InvalidInput: 2 GiB or more in all
        """
        count = np.count_nonzero(starts)
        if not count:
            return pa.nulls(len(starts), pa.binary())
        if count < len(starts):
            present = np.flatnonzero(starts != 0)
            return _spread(self.read(starts.take(present)), present, len(starts))
        with self._space.lock:
            return self._read_complete(starts) if self._space.complete else self._read(starts)

    def _read_complete(self, starts: Int64s) -> pa.BinaryArray:
        """The strings, all of the file being in memory."""
        memory = self._space.whole()
        alike = _rows_of_a_table(memory, starts, self._space.length)
        if alike is not None:
            return alike
        sizes, begins = read_varints(memory, starts)
        self._check(sizes, begins + sizes)
        return strings_at(memory, begins, sizes)

    def _read(self, starts: Int64s) -> pa.BinaryArray:
        space = self._space
        stops = np.minimum(starts + self._reach, space.length)
        found, order, filled = [], np.empty(len(starts), np.int64), 0
        everyone = np.arange(len(starts))
        longer, ends = [np.empty(0, np.int64)], np.empty(len(starts), np.int64)
        for memory, places, which in space.parts(starts, stops):
            sizes, begins = read_varints(memory, places)
            ends[which] = starts[which] + (begins - places) + sizes
            self._check(sizes, ends[which])
            within = np.flatnonzero(ends[which] <= stops[which])
            found.append(strings_at(memory, begins[within], sizes[within]))
            rows = everyone[which]
            order[rows[within]] = filled + np.arange(len(within))
            longer.append(rows[ends[which] > stops[which]])
            filled += len(within)
            self._reach = min(max(self._reach, int((ends[which] - starts[which]).max())), _FARTHEST)
        rest = np.concatenate(longer)
        for memory, places, which in space.parts(starts[rest], ends[rest]) if len(rest) else ():
            sizes, begins = read_varints(memory, places)
            found.append(strings_at(memory, begins, sizes))
            order[rest[which]] = filled + np.arange(len(places))
            filled += len(places)
        if len(found) == 1 and bool((order == everyone).all()):
            return found[0]
        return joined_strings(found).take(to_arrow(order))

    def _check(self, sizes: Int64s, ends: Int64s) -> None:
        if int(sizes.min()) < 0 or int(ends.max()) > self._space.length:
            raise CorruptFile(self._path, "a value lies outside the file")


def _rows_of_a_table(memory: Bytes, starts: Int64s, stop: int) -> pa.BinaryArray | None:
    """The bytes of records that all have the length of the first and lie a whole number of them apart; None if they
    are not like that, or too long for it to matter."""
    first = int(starts[0])
    try:
        size, prefix = read_varint(memory[first : first + _LONGEST_LENGTH].data, 0)
    except ValueError:
        return None
    if not size:
        return None if memory.take(starts).any() else binary_array(np.zeros(len(starts) + 1, np.int32), memory[:0])
    width = prefix + size
    if size > _WIDEST or int(starts.max()) + width > stop or len(starts) * size >= 2**31:
        return None
    base = first % width
    numbers = (starts - base) // width
    if bool((numbers * width + base != starts).any()):
        return None
    table = memory[base : base + (stop - base) // width * width].view(f"V{width}")
    rows = table.take(numbers).view(np.uint8).reshape(len(starts), width)
    if bool((rows[:, :prefix] != rows[0, :prefix]).any()):
        return None
    content = np.ndarray((len(rows),), f"V{size}", rows, prefix, (width,)).copy()
    return binary_array(np.arange(0, (len(rows) + 1) * size, size), content.view(np.uint8))


def _spread(strings: pa.BinaryArray, rows: Int64s, count: int) -> pa.BinaryArray:
    """``count`` strings, of which these ``rows`` are ``strings`` and the others are null."""
    offsets, data = offsets_and_bytes(strings)
    ends = np.zeros(count + 1, np.int64)
    ends[rows + 1] = np.diff(offsets)
    valid = np.zeros(count, np.bool_)
    valid[rows] = True
    spread = binary_array(np.cumsum(ends) + offsets[0], data)
    buffers = [pa.py_buffer(np.packbits(valid, bitorder="little")), *spread.buffers()[1:]]
    return pa.Array.from_buffers(pa.binary(), count, buffers)
