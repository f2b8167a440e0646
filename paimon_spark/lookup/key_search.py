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

from paimon_spark.rows.byte_strings import Bytes, Int64s, Mask, offsets_and_bytes

OrderedKeys: TypeAlias = "Int64s | pa.BinaryArray"

NUMBER, WORD, TEXT, OBJECT = 0, 1, 2, 3
_WIDTH = {WORD: 8, TEXT: 256}


@dataclass(frozen=True)
class SearchKeys:
    """Keys in a form that NumPy compares; ``lengths`` is None for numbers."""

    values: npt.NDArray[Any]
    lengths: Int64s | None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.values.nbytes + (0 if self.lengths is None else self.lengths.nbytes)

    def first_unsorted(self) -> int | None:
        """The number of the first key that is not greater than the one before it."""
        values, lengths = self.values, self.lengths
        good = values[1:] > values[:-1]
        if lengths is not None and not good.all():
            good |= (values[1:] == values[:-1]) & (lengths[1:] > lengths[:-1])
        bad = np.flatnonzero(~good)
        return int(bad[0]) + 1 if len(bad) else None


def form_of(keys: OrderedKeys) -> int:
    """The narrowest form that holds all of ``keys``."""
    if isinstance(keys, np.ndarray):
        return NUMBER
    longest = int(np.diff(offsets_and_bytes(keys)[0]).max(initial=0))
    return WORD if longest <= _WIDTH[WORD] else TEXT if longest <= _WIDTH[TEXT] else OBJECT


def search_keys(keys: OrderedKeys, form: int) -> SearchKeys:
    """``keys`` in that form; cut where they are longer than it is wide."""
    if isinstance(keys, np.ndarray):
        return SearchKeys(keys, None)
    lengths = np.diff(offsets_and_bytes(keys)[0])
    if form == OBJECT:
        texts = np.empty(len(keys), object)
        texts[:] = keys.to_pylist()
        return SearchKeys(texts, lengths)
    longest = int(lengths.max(initial=0))
    if longest > _WIDTH[form]:
        keys = pc.binary_slice(keys, 0, _WIDTH[form])
        longest = _WIDTH[form]
    matrix = _padded(keys, 8 if form == WORD else max(1, longest))
    if form == WORD:
        return SearchKeys(matrix.view(">u8").ravel().astype(np.uint64), lengths)
    return SearchKeys(matrix.view(f"S{matrix.shape[1]}").ravel(), lengths)


def _padded(keys: pa.BinaryArray, width: int) -> Bytes:
    offsets, data = offsets_and_bytes(keys)
    lengths = np.diff(offsets)
    content = data[int(offsets[0]) : int(offsets[-1])]
    if len(lengths) and (lengths == width).all():
        return np.ascontiguousarray(content).reshape(len(lengths), width)
    matrix = np.zeros((len(lengths), width), np.uint8)
    matrix[np.arange(width) < lengths[:, None]] = content
    return matrix


def join_keys(parts: list[SearchKeys]) -> SearchKeys:
    """The keys of all parts, one after another."""
    if len(parts) == 1:
        return parts[0]
    lengths = [part.lengths for part in parts if part.lengths is not None]
    return SearchKeys(np.concatenate([part.values for part in parts]), np.concatenate(lengths) if lengths else None)


def search(stored: SearchKeys, wanted: SearchKeys) -> tuple[Int64s, Mask]:
    """For each wanted key, the number of the first stored key that is not less, and whether they are equal.

    Requires: ``stored`` ascending, without repeats, and in the form of ``wanted``.
    """
    count = len(stored.values)
    at = np.searchsorted(stored.values, wanted.values)
    if not count:
        return at, np.zeros(len(at), np.bool_)
    while True:
        place = np.minimum(at, count - 1)
        tie = (at < count) & np.asarray(stored.values[place] == wanted.values, np.bool_)
        if stored.lengths is None or wanted.lengths is None or not tie.any():
            return at, tie
        shorter = tie & (stored.lengths[place] < wanted.lengths)
        if not shorter.any():
            return at, tie & (stored.lengths[place] == wanted.lengths)
        at += shorter
