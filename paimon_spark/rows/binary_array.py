"""BinaryArray and BinaryMap, writing: the lists and maps of Java's binary rows.

Byte layout of an array of n elements, all little-endian, a multiple of eight bytes long::

    int32 n
    null bits              element i is bit i, least significant first; (n + 31) / 32 words of 4 bytes
    n slots                of 1, 2, 4 or 8 bytes, without padding between; then zeros up to a multiple of 8
    pieces                 as in a BinaryRow, offsets counting from the first byte of the array

    slot of 1 byte         BOOLEAN, TINYINT
    slot of 2 bytes        SMALLINT
    slot of 4 bytes        INT, DATE, TIME, FLOAT
    slot of 8 bytes        all others, as in a BinaryRow
    null                   zero, and no piece

A map is ``int32 length of the first array | array of keys | array of values``. A multiset is the map of its elements
to how often they occur, INT.

Source: ``BinaryArray``, ``BinaryArrayWriter``, ``BinaryMap`` of Apache Paimon.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import to_arrow
from paimon_spark.errors import InvalidInput
from paimon_spark.rows.arrow_buffers import (
    BoolArray,
    Int64Array,
    UInt8Array,
    binary_array,
    positions_within,
    valid_rows,
)
from paimon_spark.rows.byte_strings import EMPTY, matrix_strings, offsets_and_bytes
from paimon_spark.rows.row_layout import element_bytes, nulls_end
from paimon_spark.rows.slots import Slots
from paimon_spark.types import DataType


def list_parts(array: pa.Array) -> tuple[Int64Array, list[pa.Array]]:
    """How many elements each list of a column has, none where it is null, and all elements; of maps, keys and values.

    :raises InvalidInput: not a column of lists or maps with 32-bit offsets
    """
    if pa.types.is_list(array.type):
        parts = [array.values]
    elif pa.types.is_map(array.type):
        parts = [array.keys, array.items]
    else:
        raise InvalidInput(f"an Arrow column of lists or maps is expected, not of {array.type}")
    _, buffer = array.buffers()[:2]
    if not len(array) or buffer is None:
        return np.zeros(len(array), np.int64), [part.slice(0, 0) for part in parts]
    offsets = np.frombuffer(buffer, np.dtype("<i4"), len(array) + 1, array.offset * 4).astype(np.int64)
    counts = np.diff(offsets)
    valid = valid_rows(array)
    if valid is not None and counts[~valid].any():
        counts = np.where(valid, counts, 0)
        rows, numbers = positions_within(counts)
        chosen = to_arrow(offsets[rows] + numbers)
        return counts, [part.take(chosen) for part in parts]
    return counts, [part.slice(int(offsets[0]), int(offsets[-1] - offsets[0])) for part in parts]


def arrays(counts: Int64Array, elements: Slots, valid: BoolArray | None, type_: DataType) -> pa.BinaryArray:
    """Arrays of ``counts`` elements each; ``elements`` are all of them, of ``type_``, null where not ``valid``.

    :raises InvalidInput: more than 2 GiB
    """
    width, ends = element_bytes(type_), nulls_end(counts)
    fixed = (ends + width * counts + 7) // 8
    rows, numbers = positions_within(counts)
    slots, sizes, places = elements.values, fixed, None
    if elements.pieces is not None:
        behind = np.concatenate([np.zeros(1, np.int64), np.cumsum(elements.pieces.sizes)])
        firsts = np.cumsum(counts) - counts
        places = fixed[rows] + behind[:-1] - behind[firsts[rows]]
        slots = elements.at(places)
        sizes = fixed + behind[firsts + counts] - behind[firsts]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    words = np.zeros(int(bounds[-1]), np.uint64)
    memory = words.view(np.uint8)
    words[bounds[:-1]] = counts.astype(np.uint64)
    if len(rows):
        if valid is not None:
            gone = ~valid
            _set_bits(memory, bounds[rows[gone]] * 8 + 4, numbers[gone])
        overlapping = np.ndarray((memory.size - width + 1,), f"<u{width}", memory, 0, (1,))
        overlapping[(bounds[:-1] * 8 + ends)[rows] + width * numbers] = slots.astype(f"<u{width}")
        if elements.pieces is not None and places is not None:
            elements.pieces.write(words, bounds[rows] + places)
    return binary_array(pa.py_buffer(words), bounds * 8)


def _set_bits(memory: UInt8Array, starts: Int64Array, bits: Int64Array) -> None:
    """Set bit number ``bits`` of the memory that begins at ``starts``. Requires: ascending addresses."""
    addresses = starts + bits // 8
    firsts = np.flatnonzero(np.diff(addresses, prepend=-1))
    if len(firsts):
        flags = np.left_shift(1, bits % 8).astype(np.uint8)
        memory[addresses[firsts]] |= np.bitwise_or.reduceat(flags, firsts)


def maps(keys: pa.BinaryArray, values: pa.BinaryArray) -> pa.BinaryArray:
    """Maps of arrays of keys and arrays of values."""
    lengths = np.diff(offsets_and_bytes(keys)[0]).astype("<i4")
    return pc.binary_join_element_wise(matrix_strings(lengths.view(np.uint8).reshape(-1, 4)), keys, values, EMPTY)
