"""BinaryRow, reading: serialized rows (layout in ``binary_row.py``) to Arrow columns.

Everything that a row claims about itself is checked against its length. Both forms of a null are read: with and
without a reserved piece.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    is_bytes,
    positions_within,
    shown_rows,
    unaligned_words,
)
from paimon_spark.rows.regions import Regions, SlotValues, array_slots, map_arrays, row_slots, rows_of
from paimon_spark.rows.row_layout import is_wide_decimal, is_wide_timestamp
from paimon_spark.types import NESTED, DataType, arrow_type

_ROW = "<BinaryRow>"
_PREFIX = 4
_COUNT = DataType("INT", nullable=False)


def decode(rows: Sequence[bytes], types: Sequence[DataType], columns: Sequence[int] | None = None) -> list[pa.Array]:
    """The fields of serialized rows as Arrow columns of ``arrow_type``, one per index in ``columns`` (default all).

    A fraction that a timestamp type has no digits for is cut off.

    :raises CorruptFile: number of fields, lengths, offsets or values contradict the layout or the types
    :raises UnsupportedFeature: a TIMESTAMP(9) beyond the years 1677 to 2262
    """
    wanted = range(len(types)) if columns is None else columns
    regions = _serialized(rows, len(types))
    arrays = []
    for i in wanted:
        array = _column(row_slots(regions, len(types), i), types[i])
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as problem:
            raise CorruptFile(_ROW, f"field {i} of type {types[i]}: {problem}") from problem
        arrays.append(array)
    return arrays


def _serialized(rows: Sequence[bytes], arity: int) -> Regions:
    """Rows without the number of fields before them."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    starts = np.cumsum(lengths) - lengths
    data = np.frombuffer(b"".join(rows) + bytes(8), np.uint8)
    everywhere = np.ones(len(rows), np.bool_)
    regions = rows_of(Regions(data, starts + _PREFIX, lengths - _PREFIX, everywhere), arity)
    found = (unaligned_words(data)[starts] & np.uint64(0xFFFFFFFF)).astype(np.uint32).byteswap()
    if (found != arity).any():
        raise CorruptFile(_ROW, f"a row of {found[found != arity][0]} fields where {arity} are expected")
    return regions


def decode_nested(regions: Regions, type_: DataType, shown: BoolArray | None) -> pa.Array:
    """BinaryArrays, BinaryMaps or BinaryRows as a column of a nested type, null where not ``shown`` (None: nowhere).

    What is not shown need not be present, and what is not present is empty. Texts are not validated.

    :raises CorruptFile: lengths, offsets or values contradict the layout or the types
    """
    arrow = arrow_type(type_)
    validity = _validity(shown)
    if type_.root == "ROW":
        rows, arity = rows_of(regions, len(type_.fields)), len(type_.fields)
        members = [_column(row_slots(rows, arity, i), field.type) for i, field in enumerate(type_.fields)]
        return pa.Array.from_buffers(arrow, len(rows.starts), [validity], children=members)
    if type_.root == "ARRAY":
        counts, elements = array_slots(regions, type_.element_type())
        child = _column(elements, type_.element_type())
    else:
        counts, child = _entries(regions, type_)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32)
    return pa.Array.from_buffers(arrow, len(counts), [validity, pa.py_buffer(offsets)], children=[child])


def _entries(regions: Regions, type_: DataType) -> tuple[Int64Array, pa.Array]:
    """How many entries each map has, and all of them."""
    key, value = (
        (type_.element_type(), _COUNT) if type_.root == "MULTISET" else (type_.key_type(), type_.element_type())
    )
    key_arrays, value_arrays = map_arrays(regions)
    counts, keys = array_slots(key_arrays, key)
    value_counts, values = array_slots(value_arrays, value)
    if (counts != value_counts).any():
        raise CorruptFile("<BinaryMap>", "a map has more keys than values, or more values than keys")
    if not keys.present.all():  # Arrow ends the process over a key that is null
        raise CorruptFile("<BinaryMap>", "a map has a key that is null")
    arrow = arrow_type(type_)
    entry = pa.struct([arrow.key_field, arrow.item_field])
    children = [_column(keys, key), _column(values, value)]
    return counts, pa.Array.from_buffers(entry, len(keys.present), [None], children=children)


def _column(slots: SlotValues, type_: DataType) -> pa.Array:
    shown = shown_rows(slots.present, slots.regions.present, type_.nullable)
    if is_bytes(type_):
        return _bytes_column(slots, type_, shown)
    if type_.root in NESTED:
        offsets, lengths = slots.pieces()
        slots.check(offsets, lengths)
        regions = slots.regions
        return decode_nested(Regions.of(regions.data, regions.starts + offsets, lengths, slots.present), type_, shown)
    if is_wide_decimal(type_):
        high, low = _wide_decimals(slots)
        return _fixed_array(np.stack([low, high], axis=1), shown, type_)
    if type_.root == "DECIMAL":
        low = slots.values.view(np.int64)
        return _fixed_array(np.stack([low, low >> 63], axis=1), shown, type_)
    if is_wide_timestamp(type_):
        return _fixed_array(_wide_timestamps(slots, type_), shown, type_)
    if type_.root == "BOOLEAN":
        return to_arrow((slots.values & np.uint64(0xFF)) != 0, shown)
    width = arrow_type(type_).bit_width // 8
    return _fixed_array(slots.values.astype(np.dtype(f"u{width}")), shown, type_)


def _fixed_array(values: npt.NDArray[Any], shown: BoolArray | None, type_: DataType) -> pa.Array:
    return pa.Array.from_buffers(
        arrow_type(type_), len(values), [_validity(shown), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _validity(shown: BoolArray | None) -> pa.Buffer | None:
    return None if shown is None else pa.py_buffer(np.packbits(shown, bitorder="little"))


def _bytes_column(slots: SlotValues, type_: DataType, shown: BoolArray | None) -> pa.Array:
    marks = (slots.values >> np.uint64(56)).astype(np.int64)
    inline = marks >= 0x80
    if (inline & (marks > 0x87)).any():
        raise CorruptFile(slots.name, f"{slots.field}: a value in its slot claims more than 7 bytes")
    offsets, lengths = slots.pieces()
    slots.check(offsets, np.where(inline, 0, lengths))
    offsets, lengths = np.where(inline, slots.at, offsets), np.where(inline, marks - 0x80, lengths)
    ends = np.cumsum(lengths)
    if len(ends) and ends[-1] > MAX_BINARY:
        raise InvalidInput(f"{slots.field} of {len(ends)} values takes more than 2 GiB; decode fewer at a time")
    value_rows, numbers = positions_within(lengths)
    data = slots.regions.data[(slots.regions.starts + offsets)[value_rows] + numbers]
    bounds = np.zeros(len(ends) + 1, np.int32)
    bounds[1:] = ends
    return pa.Array.from_buffers(
        arrow_type(type_), len(ends), [_validity(shown), pa.py_buffer(bounds), pa.py_buffer(data)]
    )


def _wide_decimals(slots: SlotValues) -> tuple[Int64Array, Int64Array]:
    offsets, lengths = slots.pieces()
    if (lengths > 16).any():
        raise CorruptFile(slots.name, f"{slots.field}: a decimal of {lengths.max()} bytes, more than 16")
    slots.check(offsets, lengths)
    data, starts = slots.regions.data, slots.regions.starts + np.where(lengths > 0, offsets, 0)
    sign = np.where((lengths > 0) & (data[starts] >= 0x80), np.uint8(0xFF), np.uint8(0))
    source = np.arange(16) - (16 - lengths)[:, None]
    full = np.where(source < 0, sign[:, None], data[starts[:, None] + np.maximum(source, 0)])
    words = full.view(np.dtype(">u8")).astype(np.uint64).view(np.int64)
    return words[:, 0], words[:, 1]


def _wide_timestamps(slots: SlotValues, type_: DataType) -> Int64Array:
    offsets, nanos = slots.pieces()
    if (nanos >= 1_000_000).any():
        raise CorruptFile(slots.name, f"{slots.field}: {nanos.max()} nanoseconds within a millisecond")
    slots.check(offsets, np.where(slots.present, 8, 0))
    millis = np.where(slots.present, slots.regions.words(np.where(slots.present, offsets, 0)).view(np.int64), 0)
    units, finer = (1_000, 1_000) if arrow_type(type_).unit == "us" else (1_000_000, 1)
    limit = (2**63 - 1) // units - 1
    if ((millis > limit) | (millis < -limit)).any():
        raise UnsupportedFeature(f"{slots.field}: a {type_} beyond the range of {arrow_type(type_)}")
    values: Int64Array = millis * units + nanos // finer
    return values
