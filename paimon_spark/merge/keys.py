"""Normalized keys: one NumPy array whose natural order and equality are Paimon's key order and equality.

Keys compare column by column: numbers by value, FALSE before TRUE, strings and bytes by unsigned bytes (a prefix
before its extensions), floats in Java's total order (-0.0 before +0.0, every NaN equal to every other and the
greatest), nulls first. NumPy knows none of the last three, so each column is turned into words (unsigned numbers
of one to eight bytes) whose order is the column's, and the words of all columns are put one after another:

    one integer-like column   its int64 itself
    up to 8 bytes in all      one uint64
    more                      a fixed-width byte string ``S{n}``, the words big-endian

For example (DATE -1, STRING 'ab') in a batch whose longest string is 'abc' takes 4 + 3 bytes:
``7fffffff 616200`` as one uint64. Strings are padded with zeros to the longest of the batch; if the batch holds a
zero byte anywhere, their length follows, so that 'a' comes before 'a\\0'. NumPy strips zeros from the end of an
``S`` value that is taken out of its array, but compares values of one array over their whole width.

One value of a megabyte would make every key a megabyte wide. Columns with a value of more than 64 bytes are
therefore replaced by the ranks of their values among the values of the batch.

Source: ``RecordComparator`` as Apache Paimon generates it (``GenerateUtils.generateCompare``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import to_numpy
from paimon_spark.errors import UnsupportedFeature
from paimon_spark.rows.arrow_buffers import (
    BoolArray,
    ByteValues,
    Column,
    Int64Array,
    UInt64Array,
    decimal_words,
    numbers,
    plain_array,
    valid_rows,
)
from paimon_spark.types import INTEGER_BITS, NESTED, TIMESTAMPS, DataType

KeyArray: TypeAlias = "npt.NDArray[Any]"
"""Normalized keys: int64, uint64 or ``S{n}``."""

_LONGEST_PADDED = 64
_INTEGER_BYTES = {"BOOLEAN": 1, "DATE": 4, "TIME": 4, **{root: bits // 8 for root, bits in INTEGER_BITS.items()}}
_LEAST = np.iinfo(np.int64).min


def normalize(columns: Sequence[Column], types: Sequence[DataType]) -> KeyArray:
    """One array that sorts, compares and groups as the rows of ``columns`` do in Paimon.

    Keys of one call are comparable with each other. Keys of different calls are so only if the key is a single
    integer, BOOLEAN, DATE, TIME, timestamp or DECIMAL of at most 18 digits without nulls: then they are int64.

    Requires: at least one column.

    :raises InvalidInput: an Arrow type does not fit its type
    :raises UnsupportedFeature: a nested type
    """
    arrays = [plain_array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    if len(arrays) == 1 and _integer_bytes(types[0]) and arrays[0].null_count == 0:
        return _integers(arrays[0], types[0])
    words = _squeezed([word for a, t in zip(arrays, types, strict=True) for word in _nullable_words(a, t)])
    return words[0].values if len(words) == 1 else _byte_strings(words)


def normalize_sequence(columns: Sequence[Column], types: Sequence[DataType], descending: bool) -> Int64Array:
    """A number for each row, greater for a newer tuple of sequence columns and equal for equal tuples.

    A null is older than any value in both directions; ``descending`` makes smaller values the newer ones. Numbers
    are comparable within one call. Errors and requirements are those of :func:`normalize`.
    """
    arrays = [plain_array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    if len(arrays) == 1 and _integer_bytes(types[0]):
        values = _integers(arrays[0], types[0])
        values = ~values if descending else values
        valid = valid_rows(arrays[0])
        if valid is None:
            return values
        if values.min(where=valid, initial=0) > _LEAST:
            return np.where(valid, values, np.int64(_LEAST))
    words = _squeezed([w for a, t in zip(arrays, types, strict=True) for w in _nullable_words(a, t, descending)])
    if len(words) > 1:
        return _ranks([word.values for word in words])
    signed: Int64Array = (words[0].values ^ np.uint64(1 << 63)).view(np.int64)
    return signed


def _ranks(words: Sequence[UInt64Array]) -> Int64Array:
    """Dense ranks of rows of words, most important first."""
    order = np.lexsort(tuple(reversed(words)))
    new = np.zeros(len(order), np.bool_)
    for word in words:
        in_order = word[order]
        new[1:] |= in_order[1:] != in_order[:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(new)
    return ranks


@dataclass(frozen=True)
class _Word:
    """Unsigned numbers below 256 ** ``width``, with ``width`` from 1 to 8."""

    values: UInt64Array
    width: int

    @property
    def reversed(self) -> _Word:
        """The same values in the opposite order."""
        return _Word(self.values ^ np.uint64((1 << 8 * self.width) - 1), self.width)

    def where(self, mask: BoolArray) -> _Word:
        """Zero outside the mask."""
        return _Word(np.where(mask, self.values, np.uint64(0)), self.width)


def _squeezed(words: Sequence[_Word]) -> list[_Word]:
    """The same bytes in fewer words: neighbours that fit into eight bytes together become one."""
    result = [words[0]]
    for word in words[1:]:
        before = result[-1]
        if before.width + word.width > 8:
            result.append(word)
        else:
            joined = before.values << np.uint64(8 * word.width) | word.values
            result[-1] = _Word(joined, before.width + word.width)
    return result


def _byte_strings(words: Sequence[_Word]) -> KeyArray:
    width = sum(word.width for word in words)
    matrix = np.empty((len(words[0].values), width), np.uint8)
    at = 0
    for word in words:
        big_endian = word.values.astype(np.dtype(">u8")).view(np.uint8).reshape(-1, 8)
        matrix[:, at : at + word.width] = big_endian[:, 8 - word.width :]
        at += word.width
    return matrix.view(np.dtype(f"S{width}")).reshape(-1)


def _nullable_words(array: pa.Array, type_: DataType, descending: bool = False) -> list[_Word]:
    """The words of one column; behind a word that is zero for null and one for a value, if there are nulls."""
    words = _words(array, type_)
    if descending:
        words = [word.reversed for word in words]
    valid = valid_rows(array)
    if valid is None:
        return words
    return [_Word(valid.astype(np.uint64), 1), *(word.where(valid) for word in words)]


def _words(array: pa.Array, type_: DataType) -> list[_Word]:
    root = type_.root
    width = _integer_bytes(type_)
    if root == "BOOLEAN":
        return [_Word(numbers(array).astype(np.uint64), 1)]
    if width:
        middle = np.uint64(1 << 8 * width - 1)
        return [_Word(_integers(array, type_).view(np.uint64) + middle & np.uint64((1 << 8 * width) - 1), width)]
    if root in ("FLOAT", "DOUBLE"):
        return [_float_word(numbers(array))]
    if root == "DECIMAL":
        high, low = decimal_words(array)
        return [_Word(high.view(np.uint64) ^ np.uint64(1 << 63), 8), _Word(low, 8)]
    if root in NESTED:
        raise UnsupportedFeature(f"a column of type {type_} cannot be a key or a sequence field")
    return _byte_words(array)


def _integer_bytes(type_: DataType) -> int:
    """The width of the integers that values of ``type_`` are; zero for types of other values."""
    if type_.root in TIMESTAMPS or (type_.root == "DECIMAL" and (type_.precision or 0) <= 18):
        return 8
    return _INTEGER_BYTES.get(type_.root, 0)


def _integers(array: pa.Array, type_: DataType) -> Int64Array:
    if type_.root == "DECIMAL":
        return decimal_words(array)[1].view(np.int64)
    return numbers(array).astype(np.int64, copy=False)


def _float_word(values: npt.NDArray[Any]) -> _Word:
    """IEEE bits, with all of them flipped below zero and the sign bit set above."""
    width = values.dtype.itemsize
    unsigned = np.dtype(f"u{width}")
    bits = np.where(np.isnan(values), values.dtype.type(np.nan), values).view(unsigned)
    sign = unsigned.type(1 << 8 * width - 1)
    return _Word(np.where(bits & sign, ~bits, bits | sign).astype(np.uint64), width)


def _byte_words(array: pa.Array) -> list[_Word]:
    values = ByteValues.of(array)
    longest = int(values.lengths.max(initial=0))
    if longest > _LONGEST_PADDED:
        ranks = to_numpy(pc.rank(array, sort_keys="ascending", tiebreaker="dense"))
        return [_Word(ranks, _bytes_of(len(array)))]
    result = []
    for first in range(0, longest, 8):
        width = min(8, longest - first)
        words = values.words(slice(None), first).byteswap() >> np.uint64(8 * (8 - width))
        result.append(_Word(words, width))
    has_zeros = not values.data[: len(values.data) - 8].all()
    if not result or (has_zeros and int(values.lengths.min()) < longest):
        result.append(_Word(values.lengths.astype(np.uint64), 1))
    return result


def _bytes_of(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)
