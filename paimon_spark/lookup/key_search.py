"""Binary search for many keys at once, in exactly the order of a sort file.

Keys come as int64 (one integer column), or as byte strings to be compared bytewise, a prefix first. NumPy searches
numbers and fixed-width strings but not Arrow's byte strings, so these are laid out in the narrowest of three forms::

    WORD    up to 8 bytes: zero padded, as one big-endian number
    TEXT    up to 256 bytes: zero padded, NumPy's ``S``
    OBJECT  longer: Python bytes

Padding makes ``61`` and ``61 00`` equal, so lengths are carried along: among keys whose padded forms tie, the shorter
comes first. A wanted key may be longer than any stored one; it is cut to the form's width, and as a tie with a stored
key then means that the stored key is a proper prefix, the same rule puts it in the right place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.rows.byte_strings import Bytes, Int64s, Mask, equal_rows, offsets_and_bytes

OrderedKeys: TypeAlias = "Int64s | pa.BinaryArray"

NUMBER, WORD, TEXT, OBJECT = 0, 1, 2, 3
_WIDTH = {WORD: 8, TEXT: 256}
_OBJECT_HEADER = 33


@dataclass(frozen=True)
class SearchKeys:
    """Keys in a form that NumPy compares. ``lengths`` is one number where all have that length; 0 for numbers."""

    form: int
    values: npt.NDArray[Any]
    lengths: Int64s | int

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        own = self.values.nbytes + (0 if isinstance(self.lengths, int) else self.lengths.nbytes)
        return own + (int((self.lengths_at(slice(None)) + _OBJECT_HEADER).sum()) if self.form == OBJECT else 0)

    def lengths_at(self, rows: slice | Int64s) -> Int64s:
        """The lengths of these keys."""
        lengths: Int64s = np.broadcast_to(self.lengths, len(self.values))[rows]
        return lengths

    def part(self, rows: slice) -> SearchKeys:
        """These keys, in the same memory."""
        lengths = self.lengths if isinstance(self.lengths, int) else self.lengths[rows]
        return SearchKeys(self.form, self.values[rows], lengths)

    def widened(self, form: int) -> SearchKeys:
        """The same keys in that form, which holds them, too."""
        if form == self.form:
            return self
        packed = self.values.astype(">u8").view("S8") if self.form == WORD else self.values
        if form == TEXT:
            return SearchKeys(TEXT, packed, self.lengths)
        content, width = packed.tobytes(), packed.dtype.itemsize
        stops = np.arange(len(packed)) * width + self.lengths
        texts = np.empty(len(packed), object)
        texts[:] = [content[row * width : stop] for row, stop in enumerate(stops.tolist())]
        return SearchKeys(OBJECT, texts, self.lengths)

    def first_unsorted(self) -> int | None:
        """The number of the first key that is not greater than the one before it."""
        values = self.values
        good = values[1:] > values[:-1]
        if not isinstance(self.lengths, int) and not good.all():
            good |= (values[1:] == values[:-1]) & (self.lengths[1:] > self.lengths[:-1])
        return None if good.all() else int(good.argmin()) + 1


def search_keys(keys: OrderedKeys, form: int | None = None) -> SearchKeys:
    """``keys`` in that form, cut where they are longer than it is wide; in the narrowest that holds all, if None."""
    if isinstance(keys, np.ndarray):
        return SearchKeys(NUMBER, keys, 0)
    rows = equal_rows(keys)
    lengths = np.diff(offsets_and_bytes(keys)[0]) if rows is None else rows.shape[1]
    longest = lengths if isinstance(lengths, int) else int(lengths.max(initial=0))
    if form is None:
        form = _form_of_longest(longest)
    if form == OBJECT:
        texts = np.empty(len(keys), object)
        texts[:] = keys.to_pylist()
        return SearchKeys(OBJECT, texts, lengths)
    if longest > _WIDTH[form]:
        keys, longest = pc.binary_slice(keys, 0, _WIDTH[form]), _WIDTH[form]
        rows = equal_rows(keys)
    width = 8 if form == WORD else max(1, longest)
    matrix = rows if rows is not None and rows.shape[1] == width else _padded(keys, width)
    if form == WORD:
        return SearchKeys(WORD, matrix.view(">u8").ravel().astype(np.uint64), lengths)
    return SearchKeys(TEXT, matrix.view(f"S{matrix.shape[1]}").ravel(), lengths)


def _form_of_longest(longest: int) -> int:
    return WORD if longest <= _WIDTH[WORD] else TEXT if longest <= _WIDTH[TEXT] else OBJECT


def _padded(keys: pa.BinaryArray, width: int) -> Bytes:
    offsets, data = offsets_and_bytes(keys)
    lengths = np.diff(offsets)
    matrix = np.zeros((len(lengths), width), np.uint8)
    matrix[np.arange(width) < lengths[:, None]] = data[int(offsets[0]) : int(offsets[-1])]
    return matrix


def search(stored: SearchKeys, wanted: SearchKeys) -> tuple[Int64s, Mask]:
    """For each wanted key, the number of the first stored key that is not less, and whether they are equal.

    Requires: ``stored`` ascending, without repeats, and in the form of ``wanted``.
    """
    count = len(stored.values)
    at = np.searchsorted(stored.values, wanted.values)
    if not count:
        return at, np.zeros(len(at), np.bool_)
    every = slice(None)
    while True:
        place = np.minimum(at, count - 1)
        tie = (at < count) & np.asarray(stored.values[place] == wanted.values, np.bool_)
        if _one_length(stored, wanted) or not tie.any():
            return at, tie
        shorter = tie & (stored.lengths_at(place) < wanted.lengths_at(every))
        if not shorter.any():
            return at, tie & (stored.lengths_at(place) == wanted.lengths_at(every))
        at += shorter


def search_within(stored: SearchKeys, first: Int64s, counts: Int64s, wanted: SearchKeys) -> tuple[Int64s, Mask]:
    """For each wanted key, the place of the last of ``counts`` stored keys from ``first`` on that is not greater, or of
    the first one, and whether they are equal: all halve their ranges side by side.

    Requires: each of these ranges holds a key, and ascends without repeats; forms are the same.
    """
    at, left = first.copy(), counts.copy()
    equal_lengths = _one_length(stored, wanted)
    lengths = wanted.lengths_at(slice(None))
    while int(left.max(initial=1)) > 1:
        half = left >> 1
        middle = at + half
        values = stored.values.take(middle)
        not_greater = np.asarray(values <= wanted.values, np.bool_)
        if not equal_lengths:
            tie = np.asarray(values == wanted.values, np.bool_)
            not_greater &= ~tie | (stored.lengths_at(middle) <= lengths)
        np.copyto(at, middle, where=not_greater)
        left -= half
    equal = np.asarray(stored.values.take(at) == wanted.values, np.bool_)
    return at, equal if equal_lengths else equal & (stored.lengths_at(at) == lengths)


def _one_length(one: SearchKeys, other: SearchKeys) -> bool:
    return isinstance(one.lengths, int) and isinstance(other.lengths, int) and one.lengths == other.lengths
