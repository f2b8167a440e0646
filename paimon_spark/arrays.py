"""NumPy arrays as Arrow arrays and back, through their buffers.

pyarrow's own conversions (``pa.array``, ``pa.scalar``, ``Array.to_numpy``) import pandas wherever it is installed,
which costs every new Spark worker a third of a second and is never used. These conversions do not, and copy no
numbers. They are for what workers do; code that runs once on the driver may use pyarrow's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BoolArray = npt.NDArray[np.bool_]


def to_arrow(values: npt.NDArray[Any], valid: BoolArray | None = None) -> pa.Array:
    """Numbers or truth values as an Arrow array of the same type; null where ``valid`` is False."""
    if values.dtype == np.bool_:
        type_, data = pa.bool_(), _packed(values)
    else:
        type_, data = pa.from_numpy_dtype(values.dtype), pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(type_, len(values), [None if valid is None else _packed(valid), data])


def _packed(bits: BoolArray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def to_numpy(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """The numbers or truth values of a column as a NumPy array. What stands under a null is undefined.

    Requires: the column's values have a fixed width of whole bytes or are booleans.
    """
    if isinstance(column, pa.ChunkedArray):
        parts = [to_numpy(chunk) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else _no_values(column.type)
    buffer = column.buffers()[1]
    if not len(column) or buffer is None:
        return np.resize(_no_values(column.type), len(column))
    if pa.types.is_boolean(column.type):
        return _bits(buffer, column.offset, len(column))
    dtype = _dtype(column.type)
    return np.frombuffer(buffer, dtype, len(column), column.offset * dtype.itemsize)


def is_valid(column: pa.Array | pa.ChunkedArray) -> BoolArray:
    """Which rows of a column are not null."""
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    valid: BoolArray = to_numpy(column.is_valid())
    return valid


def _bits(buffer: pa.Buffer, offset: int, length: int) -> BoolArray:
    first = offset // 8
    data = np.frombuffer(buffer, np.uint8, (offset + length + 7) // 8 - first, first)
    bits = np.unpackbits(data, count=offset % 8 + length, bitorder="little")[offset % 8 :]
    return bits.view(np.bool_)


def _no_values(type_: pa.DataType) -> npt.NDArray[Any]:
    return np.zeros(0, np.bool_ if pa.types.is_boolean(type_) else _dtype(type_))


def _dtype(type_: pa.DataType) -> np.dtype[Any]:
    kind = "f" if pa.types.is_floating(type_) else "u" if pa.types.is_unsigned_integer(type_) else "i"
    return np.dtype(f"{kind}{type_.bit_width // 8}")


def literal(value: bool | int | float, type_: pa.DataType) -> pa.Scalar:
    """A number or truth value as an Arrow scalar of ``type_``."""
    dtype = np.dtype(np.bool_) if pa.types.is_boolean(type_) else _dtype(type_)
    return to_arrow(np.array([value], dtype))[0]


def strings(values: Sequence[bytes], type_: pa.DataType) -> pa.Array:
    """A few texts (as UTF-8) or byte strings as an array of ``type_``, ``pa.string()`` or ``pa.binary()``."""
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))])


def joined(scalars: Sequence[pa.Scalar]) -> pa.Array:
    """Scalars of one type as an array. Requires: at least one."""
    return pa.concat_arrays([pa.repeat(scalar, 1) for scalar in scalars])
