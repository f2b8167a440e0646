"""Deleted rows of a few files that Spark's own reader reads, without a join.

Spark fills the column :data:`POSITION` of a parquet scan with the position of each row in its file, and knows the size
of that file. The bitmaps of all files of a scan are one array of 64-bit numbers, and another one tells where they
begin, by the lowest bits of the sizes of the files, which are different for all of them; no plan shows these arrays
(:mod:`paimon_spark.spark.native_array`)::

    starts      2**k x 64 bits              number (size & (2**k - 1)): where in words the file begins; else 2**30
    words       ceil(rows / 64) x 64 bits   a file: bit (position & 63) of word (position >> 6): deleted

A file begins at a multiple of the power of two that its words fit in. So the word of a row is at ``start | position >>
6``: Spark's ``+`` looks for an overflow by way of a function object. A row costs two loads; a join costs a hash, a
probe and a row of the other side. But every task of a stage gets both arrays along with its code, so there is a bound
on them (``BYTES``, ``FILES``), and beyond there is :mod:`paimon_spark.spark.native_deletions`. A row that has no start,
or no position, is an error.

The condition is text where it can be, and the rest is put together in the JVM: each operator between two columns of
Python is a dozen calls. What differs from snapshot to snapshot is in the arrays: Spark compiles the code of a scan once
for all snapshots, and the JVM keeps what it has made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame

from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.deletion_vector import DeletionVector
from paimon_spark.options import MB
from paimon_spark.spark.native_array import array_columns
from paimon_spark.spark.native_columns import METADATA, POSITION
from paimon_spark.spark.native_jvm import FUNCTIONS, jvm_expression, jvm_static

FILES = 256
BYTES = 16 * MB
# Nearly all scans need no more slots than the fewest, which makes their code the same.
_FEWEST_SLOTS, _MOST_SLOTS = 1 << 10, 1 << 18
_NOWHERE = 1 << 30
_SIZE = f"{METADATA}.file_size"
_WORD = f"shiftright({POSITION}, 6)"
_BIT = f"CAST({POSITION} & 63 AS INT)"
_UNKNOWN = "raise_error('Spark reads a row that is not in the deletion vectors of this table')"

Int64Array = npt.NDArray[np.int64]


def bitmap_bytes(row_count: int) -> int:
    """Bytes of the bitmap of a file of ``row_count`` rows, and of the gap behind it."""
    return 8 * _extent(row_count)


def are_told_apart(sizes: Sequence[int]) -> bool:
    """Whether files of these sizes can be masked in one scan: they are few, and their lowest bits tell them apart."""
    return len(sizes) <= FILES and _slots(np.array(sizes, np.int64)) is not None


class Bitmaps(NamedTuple):
    """The bitmaps of some files, as the two arrays that this module describes."""

    starts: Int64Array
    words: Int64Array

    @classmethod
    def of(cls, vectors: Sequence[tuple[DataFile, DeletionVector]]) -> Bitmaps:
        """Of (file, its :class:`DeletionVector`) pairs. Requires: the sizes of the files are told apart."""
        slots = _slots(np.array([file.size for file, _ in vectors], np.int64))
        assert slots is not None
        starts = _starts([file.row_count for file, _ in vectors])
        return cls(slots.table(starts), _words(vectors, starts))


def without_deleted_of(session: Any, rows: Any, bitmaps: Bitmaps) -> Any:
    """The DataFrame ``rows``, a parquet scan with the column :data:`POSITION`, without its deleted rows.

    Requires: the files of ``bitmaps`` have the sizes that Spark finds.
    """
    start_of, word_at = array_columns(session, bitmaps)
    jvm = session.sparkContext._jvm
    get, getbit, nvl = (jvm_static(jvm, FUNCTIONS, name) for name in ("get", "getbit", "nvl"))
    start = get(start_of, jvm_expression(jvm, f"{_SIZE} & {len(bitmaps.starts) - 1}"))
    word = get(word_at, start.bitwiseOR(jvm_expression(jvm, _WORD)))
    bit = nvl(getbit(word, jvm_expression(jvm, _BIT)), jvm_expression(jvm, _UNKNOWN))
    return DataFrame(rows._jdf.filter(bit.equalTo(0)), session)


def _extent(row_count: int) -> int:
    """The power of two that the words of so many rows fit in."""
    words: int = -(-row_count // 64)
    return 1 << max(words - 1, 0).bit_length()


def _starts(row_counts: Sequence[int]) -> Int64Array:
    """Where the words of files of so many rows begin, the large ones first, at multiples of their extents."""
    extents = np.array([_extent(count) for count in row_counts], np.int64)
    falling = np.argsort(-extents, kind="stable")
    starts = np.empty_like(extents)
    starts[falling] = np.cumsum(extents[falling]) - extents[falling]
    return starts


def _words(vectors: Sequence[tuple[DataFile, DeletionVector]], starts: Int64Array) -> Int64Array:
    """The words of all files."""
    ends = [start + -(-file.row_count // 64) for (file, _), start in zip(vectors, starts, strict=True)]
    bits = np.zeros(64 * max(ends), np.bool_)
    for (_, vector), start in zip(vectors, starts, strict=True):
        bits[64 * start + vector.positions()] = True
    return np.packbits(bits, bitorder="little").view("<i8")


class _Slots(NamedTuple):
    """The slots of files of different sizes: ``taken`` by each, out of ``mask`` + 1."""

    mask: int
    taken: Int64Array

    def table(self, starts: Int64Array) -> Int64Array:
        """What the slots hold, where the bitmaps of the files begin at ``starts``."""
        table = np.full(self.mask + 1, _NOWHERE, np.int64)
        table[self.taken] = starts
        return table


def _slots(sizes: Int64Array) -> _Slots | None:
    """Slots that are different for all sizes; of ``n`` sizes it takes some n² / 2. None: more than there may be."""
    count = _FEWEST_SLOTS
    while count <= _MOST_SLOTS:
        taken = sizes & (count - 1)
        if len(np.unique(taken)) == len(sizes):
            return _Slots(count - 1, taken)
        count *= 2
    return None
