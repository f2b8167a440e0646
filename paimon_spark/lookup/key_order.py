"""KeyOrder: in which order a sort file holds its keys, and how a binary search sees that order.

Java compares the typed fields of compact rows. Here a key is *normalized*: to a number, or to a byte string whose
bytewise order (a prefix first) and equality are those of the typed fields. Unlike the normalized keys of a merge,
these mean the same in every call, so stored keys and wanted keys may be normalized apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import InvalidInput
from paimon_spark.lookup.key_search import OrderedKeys
from paimon_spark.rows.arrow_buffers import decimal_words, numbers, valid_rows
from paimon_spark.rows.byte_strings import EMPTY, Int64s, matrix_rows, matrix_strings, offsets_and_bytes
from paimon_spark.rows.compact_row import decode, fixed_width, header_size
from paimon_spark.rows.row_layout import is_wide_decimal
from paimon_spark.types import BINARIES, STRINGS, DataType


class KeyOrder(Protocol):
    """An order of keys; ``name`` says which, in a sort file's context."""

    @property
    def name(self) -> str:
        """What tells this order from others."""
        ...

    def normalize(self, keys: pa.BinaryArray) -> OrderedKeys:
        """The keys as numbers, or as byte strings in bytewise order.

        :raises InvalidInput: a key that this order does not know
        """
        ...


class _Bytewise:
    """Keys compared byte by byte, unsigned, a prefix first."""

    name = "bytes"

    def normalize(self, keys: pa.BinaryArray) -> OrderedKeys:
        """The keys as they are."""
        return keys


BYTEWISE: KeyOrder = _Bytewise()


class CompactOrder:
    """The order of compact rows: their fields one after another, nulls first, as Java's key comparator has it.

    A row of one number that cannot be null becomes that number. Any other becomes its fields' bytes, joined: numbers
    big-endian with the sign bit flipped (negative floats with all bits flipped, NaN greatest), strings as they are. So
    that a string that ends is less than one that goes on, whatever field follows, a zero byte in it becomes ``00 01``
    and its end ``00 00``; a string that is the only field and cannot be null needs neither. A field that may be null
    has ``00`` or ``01`` before it, whether or not any value is: keys that are compared were normalized apart.
    """

    def __init__(self, types: Sequence[DataType]) -> None:
        """The order of rows of those types. Requires: no nested type."""
        self._types = tuple(types)
        self.name = f"compact rows ({', '.join(map(str, types))})"

    def normalize(self, keys: pa.BinaryArray) -> OrderedKeys:
        """Numbers, or byte strings in bytewise order.

        :raises CorruptFile: a key is no compact row of these types
        :raises InvalidInput: null where the type is NOT NULL
        """
        if len(self._types) == 1 and not self._types[0].nullable:
            return self._normalize_single(keys, self._types[0])
        pieces: list[pa.BinaryArray] = []
        for array, type_ in zip(decode(keys, self._types), self._types, strict=True):
            pieces += _ordered_pieces(array, type_)
        return pc.binary_join_element_wise(*pieces, EMPTY)

    def _normalize_single(self, keys: pa.BinaryArray, type_: DataType) -> OrderedKeys:
        fast = _plain_integers(keys, type_)
        if fast is not None:
            return fast
        array = decode(keys, self._types)[0]
        _refuse_nulls(array, type_)
        if type_.root in STRINGS or type_.root in BINARIES:
            return array.cast(pa.binary())
        return matrix_strings(_wide_numbers(array)) if is_wide_decimal(type_) else _ordered_numbers(array, type_)


def _plain_integers(keys: pa.BinaryArray, type_: DataType) -> Int64s | None:
    """The values of rows that hold one integer each, without the way through Arrow; None for all others."""
    if type_.root not in ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME"):
        return None
    header, width = header_size(1), fixed_width(type_) or 8
    offsets, data = offsets_and_bytes(keys)
    if len(keys) == 0 or not bool((np.diff(offsets) == header + width).all()):
        return None
    rows = matrix_rows(offsets, data, None, header + width)
    if rows[:, :header].any():
        return None
    values: Int64s = np.ascontiguousarray(rows[:, header:]).view(f"<i{width}").ravel().astype(np.int64)
    return values


def _refuse_nulls(array: pa.Array, type_: DataType) -> None:
    if array.null_count and not type_.nullable:
        raise InvalidInput(f"keys must not be null where they are {type_}; {array.null_count} of {len(array)} are")


def _ordered_pieces(array: pa.Array, type_: DataType) -> list[pa.BinaryArray]:
    """The byte strings that stand for one field, to be joined."""
    pieces = []
    valid = valid_rows(array)
    _refuse_nulls(array, type_)
    if type_.nullable:
        marks = np.ones((len(array), 1), np.uint8) if valid is None else valid.astype(np.uint8)[:, None]
        pieces.append(matrix_strings(marks))
    if type_.root in STRINGS or type_.root in BINARIES:
        texts = array.cast(pa.binary()).fill_null(EMPTY)
        pieces += [
            pc.replace_substring(texts, b"\x00", b"\x00\x01"),
            matrix_strings(np.zeros((len(array), 2), np.uint8)),
        ]
        return pieces
    if is_wide_decimal(type_):
        return [*pieces, matrix_strings(_wide_numbers(array))]
    values = _ordered_numbers(array, type_).view(np.uint64) ^ np.uint64(1 << 63)
    return [*pieces, matrix_strings(values.astype(">u8").view(np.uint8).reshape(-1, 8))]


def _ordered_numbers(array: pa.Array, type_: DataType) -> Int64s:
    """Numbers whose order is that of the values; zero for a null."""
    if type_.root == "DECIMAL":
        return decimal_words(array)[1].view(np.int64)
    values: npt.NDArray[Any] = numbers(array)
    if type_.root not in ("FLOAT", "DOUBLE"):
        return values.astype(np.int64)
    bits = np.where(np.isnan(values), np.nan, values.astype(np.float64)).view(np.int64)
    ordered: Int64s = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    return ordered


def _wide_numbers(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Decimals of more than 18 digits as 16 bytes whose order is theirs."""
    high, low = decimal_words(array)
    words = np.stack((high.view(np.uint64) ^ np.uint64(1 << 63), low), axis=1)
    return words.astype(">u8").view(np.uint8).reshape(-1, 16)
