"""Byte strings by the million: Arrow binary arrays as NumPy offsets and bytes, and back.

An address space here is a one-dimensional ``uint8`` array; a string in it is a start and a length. Nothing in this
module looks at a single string in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.arrays import strings
from paimon_spark.errors import InvalidInput

Bytes: TypeAlias = npt.NDArray[np.uint8]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
ByteStrings: TypeAlias = "pa.Array | pa.ChunkedArray | Sequence[bytes]"

_VIEW = np.dtype([("length", "<i4"), ("inline", "V4"), ("buffer", "<i4"), ("offset", "<i4")])
_SOME = 64
_INLINE = 12
_WINDOW = 30
_TOO_MUCH = "the values of one batch exceed 2 GiB; ask for fewer keys at once"
EMPTY = strings([b""], pa.binary())[0]
VARINT_LIMITS = tuple(1 << (7 * count) for count in range(1, 10))


def as_binary(values: ByteStrings, what: str) -> pa.BinaryArray:
    """``values`` as one Arrow binary array.

    :raises InvalidInput: a null, another type, or more than 2 GiB
    """
    try:
        array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else _of_list(values, what)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
        array = array if array.type == pa.binary() else array.cast(pa.binary())
    except (pa.ArrowException, TypeError) as problem:
        raise InvalidInput(f"{what} must be byte strings of less than 2 GiB in all: {problem}") from problem
    if array.null_count:
        raise InvalidInput(f"{what} must not be null; {array.null_count} of {len(array)} are")
    return array


def _of_list(values: Sequence[bytes], what: str) -> pa.BinaryArray:
    if any(value is None for value in values):
        raise InvalidInput(f"{what} must not be null")
    if not all(isinstance(value, bytes) for value in values) or sum(map(len, values)) >= 2**31:
        raise TypeError("not bytes, or too many")
    return strings(values, pa.binary())


def offsets_and_bytes(array: pa.BinaryArray) -> tuple[Int64s, Bytes]:
    """Where each string starts (one entry more than strings) and the bytes these offsets count in."""
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    starts = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    return starts, np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def binary_array(offsets: npt.NDArray[np.integer[Any]], data: Bytes) -> pa.BinaryArray:
    """The strings that ``offsets`` (one entry more than strings, ascending, below 2 GiB) cut out of ``data``."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def rows_at(memory: Bytes, starts: Int64s, width: int) -> Bytes:
    """A matrix of the ``width`` bytes at each start."""
    if width == 0 or len(starts) == 0:
        return np.empty((len(starts), width), np.uint8)
    overlapping = np.ndarray((memory.size - width + 1,), f"V{width}", memory, 0, (1,))
    rows: Bytes = overlapping[starts].view(np.uint8).reshape(len(starts), width)
    return rows


def equal_rows(array: pa.BinaryArray) -> Bytes | None:
    """The strings as the rows of a matrix, a view, if all have one length; None otherwise, or without strings."""
    if not len(array):
        return None
    _, buffer, data = array.buffers()
    # As they are in memory: half as many bytes as :func:`offsets_and_bytes` makes of them.
    offsets = np.frombuffer(buffer, np.int32, len(array) + 1, 4 * array.offset)
    first, width = int(offsets[0]), int(offsets[1] - offsets[0])
    if bool((offsets[1:] - offsets[:-1] != width).any()):
        return None
    if not width:
        return np.empty((len(array), 0), np.uint8)
    return np.frombuffer(data, np.uint8, len(array) * width, first).reshape(-1, width)


def matrix_rows(offsets: Int64s, data: Bytes, rows: Int64s | None, width: int) -> Bytes:
    """The strings numbered ``rows`` (None: all), each ``width`` bytes long, as a matrix; a view where possible."""
    if rows is None:
        first = int(offsets[0])
        return data[first : first + (len(offsets) - 1) * width].reshape(len(offsets) - 1, width)
    return rows_at(data, offsets[rows], width)


def matrix_strings(matrix: Bytes) -> pa.BinaryArray:
    """The rows of a matrix as strings; a view where the matrix is contiguous."""
    count, width = matrix.shape
    return binary_array(np.arange(count + 1) * width, np.ascontiguousarray(matrix).reshape(-1))


def strings_at(memory: Bytes, starts: Int64s, lengths: Int64s, present: Mask | None = None) -> pa.BinaryArray:
    """Copies of the strings at ``starts``; null where ``present`` is False (their start and length do not matter).

    :raises InvalidInput: the strings have 2 GiB or more in all
    """
    if present is None or present.all():
        present = None
        width = int(lengths[0]) if len(lengths) else 0
        if width <= _INLINE * 64 and width * len(lengths) < 2**31 and bool((lengths == width).all()):
            return matrix_strings(rows_at(memory, starts, width))
    # A view's offset has 31 bits, so the memory is offered as overlapping buffers, one beginning every GiB.
    windows = [memory[at : at + 2**31 - 1] for at in range(0, memory.size or 1, 1 << _WINDOW)]
    which = starts >> _WINDOW
    return strings_in(windows, which, starts & ((1 << _WINDOW) - 1), lengths, present)


def strings_in(
    memories: Sequence[Bytes], which: Int64s, starts: Int64s, lengths: Int64s, present: Mask | None = None
) -> pa.BinaryArray:
    """Like :func:`strings_at`, each string in the memory (below 2 GiB) whose number ``which`` names.

    Arrow does the copying: each string becomes a 16-byte view (length, then either up to 12 bytes of content or a
    buffer number and an offset), and a cast turns the views into a plain binary array.
    """
    if present is not None:
        lengths = np.where(present, lengths, 0)
    if int(lengths.sum()) >= 2**31:
        raise InvalidInput(_TOO_MUCH)
    views = np.zeros(len(starts), _VIEW)
    views["length"] = lengths
    views["buffer"] = which
    views["offset"] = starts
    if len(lengths) and int(lengths.min()) <= _INLINE:
        _inline(views, memories, which, starts, lengths)
    validity = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [validity, pa.py_buffer(views), *(pa.py_buffer(memory) for memory in memories)]
    return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers).cast(pa.binary())


def joined_strings(parts: Sequence[pa.BinaryArray]) -> pa.BinaryArray:
    """All strings of these arrays, of which there is one at least.

    :raises InvalidInput: the strings have 2 GiB or more in all
    """
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowInvalid as problem:
        raise InvalidInput(_TOO_MUCH) from problem


def _inline(views: Any, memories: Sequence[Bytes], which: Int64s, starts: Int64s, lengths: Int64s) -> None:
    raw = views.view(np.uint8).reshape(len(views), _VIEW.itemsize)
    short = np.flatnonzero((lengths <= _INLINE) & (lengths > 0))
    if len(short) > 1 and len(memories) > 1:
        short = short[np.argsort(which[short], kind="stable")]
    borders = np.flatnonzero(np.diff(which[short], prepend=-1, append=-1)) if len(short) else np.zeros(1, np.int64)
    for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        rows = short[begin:end]
        memory = memories[int(which[rows[0]])]
        wanted = starts[rows]
        late = wanted > memory.size - _INLINE
        if late.any():
            first = max(0, memory.size - _INLINE)
            tail = np.concatenate((memory[first:], np.zeros(_INLINE, np.uint8)))
            raw[rows[late], 4:] = rows_at(tail, wanted[late] - first, _INLINE)
            rows, wanted = rows[~late], wanted[~late]
        if len(rows):
            raw[rows, 4:] = rows_at(memory, wanted, _INLINE)


def varints(numbers: Int64s) -> pa.BinaryArray:
    """Each number (not negative) in base 128, low group first, the high bit set on all groups but the last."""
    size = varint_sizes(numbers)
    widest = int(size.max(initial=1))
    groups = (numbers[:, None] >> (7 * np.arange(widest))[None, :]) & 0x7F
    used = np.arange(widest)[None, :] < size[:, None]
    groups[:, :-1] |= np.where(used[:, 1:], 0x80, 0)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
    return binary_array(offsets, groups[used].astype(np.uint8))


def varint_sizes(numbers: Int64s) -> Int64s:
    """Bytes that :func:`varints` needs for each number."""
    size = np.ones(len(numbers), np.int64)
    greatest = int(numbers.max(initial=0))
    for limit in VARINT_LIMITS:
        if greatest < limit:
            break
        size += numbers >= limit
    return size


def varint(number: int) -> bytes:
    """One number in base 128."""
    groups = bytearray()
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def read_varint(data: bytes | memoryview, at: int, longest: int = 5) -> tuple[int, int]:
    """The number at ``at`` and the position behind it.

    :raises ValueError: the data end inside the number, or it is longer than ``longest`` bytes
    """
    number = 0
    for shift in range(0, 7 * longest, 7):
        if at >= len(data):
            break
        group = data[at]
        at += 1
        number |= (group & 0x7F) << shift
        if group < 0x80:
            return number, at
    raise ValueError("a variable-length number does not end")


def read_varints(memory: Bytes, starts: Int64s, longest: int = 5) -> tuple[Int64s, Int64s]:
    """The numbers at ``starts`` and the positions behind them; a number that does not end in time is -1.

    Positions at or behind the end of ``memory`` read as the last byte, so callers check the ends they get.
    """
    if len(starts) > _SOME and (alike := _one_varint(memory, starts)) is not None:
        return np.full(len(starts), alike[0]), starts + alike[1]
    last = memory.size - 1
    group = memory[np.minimum(starts, last)].astype(np.int64)
    number, end = group & 0x7F, starts + 1
    more = np.flatnonzero(group >= 0x80)
    for shift in range(7, 7 * longest, 7):
        if not len(more):
            return number, end
        group = memory[np.minimum(end[more], last)].astype(np.int64)
        number[more] |= (group & 0x7F) << shift
        end[more] += 1
        more = more[group >= 0x80]
    number[more] = -1
    return number, end


def _one_varint(memory: Bytes, starts: Int64s) -> tuple[int, int] | None:
    """The number that is at all ``starts``, and its length; None if they are not alike, or longer than two bytes."""
    first = int(starts[0])
    try:
        number, end = read_varint(memory[first : first + 2].data, 0, 2)
    except ValueError:
        return None
    wanted = memory[first : first + end].view(f"u{end}")[0]
    if int(starts.max()) + end > memory.size:
        return None
    for some in (starts[:: len(starts) // _SOME], starts):
        if bool((rows_at(memory, some, end).view(wanted.dtype) != wanted).any()):
            return None
    return number, end
