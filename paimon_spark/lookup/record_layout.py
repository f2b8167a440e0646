"""Records: byte strings each behind its length, as both kinds of lookup file hold them.

::

    record    (varint length | bytes) for each column
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.rows.byte_strings import (
    EMPTY,
    Bytes,
    Int64s,
    equal_rows,
    matrix_strings,
    offsets_and_bytes,
    varint,
    varints,
)


def records(*columns: pa.BinaryArray) -> pa.BinaryArray:
    """The record of each row of these columns, which are equally long and have no nulls."""
    width = record_size(*columns)
    if width is not None:
        # All of one size: as a matrix at half the price.
        rows = np.empty((len(columns[0]), width), np.uint8)
        fill_records(rows, *columns)
        return matrix_strings(rows)
    pieces = [piece for column in columns for piece in (varints(_lengths(column)), column)]
    return pc.binary_join_element_wise(*pieces, EMPTY)


def record_size(*columns: pa.BinaryArray) -> int | None:
    """The size of every row's record if each column's strings are of one length; None otherwise, or without rows."""
    size = 0
    for column in columns:
        rows = equal_rows(column)
        if rows is None:
            return None
        size += len(varint(rows.shape[1])) + rows.shape[1]
    return size


def fill_records(rows: Bytes, *columns: pa.BinaryArray) -> None:
    """Put the rows' records, all of one size, into ``rows``, its last axis a record, the others counting rows."""
    at = 0
    for column in columns:
        first, stop = np.frombuffer(column.buffers()[1], np.int32, 2, 4 * column.offset).tolist()
        length = stop - first
        prefix = np.frombuffer(varint(length), np.uint8)
        rows[..., at : at + len(prefix)] = prefix
        at += len(prefix)
        if length:
            # As items of that many bytes, which NumPy copies faster than rows of single ones.
            strings = np.frombuffer(column.buffers()[2], f"V{length}", len(column), first)
            rows[..., at : at + length].view(strings.dtype)[...] = strings.reshape(*rows.shape[:-1], 1)
        at += length


def _lengths(column: pa.BinaryArray) -> Int64s:
    return np.diff(offsets_and_bytes(column)[0])
