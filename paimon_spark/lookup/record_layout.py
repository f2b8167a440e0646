"""Records: byte strings each behind its length, as both kinds of lookup file hold them.

::

    record    (varint length | bytes) for each column
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.rows.byte_strings import EMPTY, matrix_rows, matrix_strings, offsets_and_bytes, varints


def records(*columns: pa.BinaryArray) -> pa.BinaryArray:
    """The record of each row of these columns, which are equally long and have no nulls."""
    lengths = [_lengths(column) for column in columns]
    if not all(isinstance(length, pa.Scalar) for length in lengths):
        pieces = [piece for pair in zip(lengths, columns, strict=True) for piece in pair]
        return pc.binary_join_element_wise(*pieces, EMPTY)
    # All of one size: as a matrix at half the price.
    parts = []
    for length, column in zip(lengths, columns, strict=True):
        offsets, data = offsets_and_bytes(column)
        parts += [
            np.frombuffer(length.as_py(), np.uint8),
            matrix_rows(offsets, data, None, int(offsets[1] - offsets[0])),
        ]
    rows = np.empty((len(columns[0]), sum(part.shape[-1] for part in parts)), np.uint8)
    at = 0
    for part in parts:
        rows[:, at : at + part.shape[-1]] = part
        at += part.shape[-1]
    return matrix_strings(rows)


def _lengths(column: pa.BinaryArray) -> pa.BinaryArray | pa.Scalar:
    """The varint of each string's length; one scalar when they are all of one length."""
    lengths = np.diff(offsets_and_bytes(column)[0])
    if len(lengths) and (lengths == lengths[0]).all():
        return varints(lengths[:1])[0]
    return varints(lengths)
