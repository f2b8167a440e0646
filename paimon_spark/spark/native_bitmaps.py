"""Deleted rows of a few files that Spark's own reader reads, without a join.

Spark fills the column :data:`POSITION` of a parquet scan with the position of each row in its file, and knows the size
of that file. All files of a scan have a slot, by the lowest bits of their sizes, which are different for all of them,
and in it the set of their deleted positions (:mod:`paimon_spark.spark.native_bitsets`)::

    2**k slots    slot (size & (2**k - 1)): the set of the file; else none

A row costs two loads; a join costs a hash, a probe and a row of the other side. But every task of a stage gets all the
sets along with its code, so there is a bound on them (``BYTES``, ``FILES``), and beyond there is
:mod:`paimon_spark.spark.native_deletions`. A row that has no slot, or no position, is an error.

What differs from snapshot to snapshot is in the sets: Spark compiles the code of a scan once for all snapshots, and the
JVM keeps what it has made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.deletion_vector import DeletionVector
from paimon_spark.options import MB
from paimon_spark.spark.native_bitsets import Words, contains, serialized
from paimon_spark.spark.native_columns import METADATA, POSITION
from paimon_spark.spark.native_jvm import EXPRESSIONS, jvm_class

FILES = 256
BYTES = 16 * MB
# Nearly all scans need no more slots than the fewest, which makes their code the same.
_FEWEST_SLOTS, _MOST_SLOTS = 1 << 10, 1 << 18
_SIZE = f"{METADATA}.file_size"
_POSITION = f"CAST({POSITION} AS INT)"
_UNKNOWN = "Spark reads a row that is not in the deletion vectors of this table."

Int64Array = npt.NDArray[np.int64]


def bitmap_bytes(row_count: int) -> int:
    """Bytes of the bitmap of a file of ``row_count`` rows."""
    return 8 * _words(row_count)


def are_told_apart(sizes: Sequence[int]) -> bool:
    """Whether files of these sizes can be masked in one scan: they are few, and their lowest bits tell them apart."""
    return len(sizes) <= FILES and _slots(np.array(sizes, np.int64))[1] > 0


class Bitmaps(NamedTuple):
    """The deleted rows of some files: how many ``slots`` there are, and the serialized ``sets`` in them."""

    slots: int
    sets: bytes

    @classmethod
    def of(cls, vectors: Sequence[tuple[DataFile, DeletionVector]]) -> Bitmaps:
        """Of (file, its :class:`DeletionVector`) pairs. Requires: the sizes of the files are told apart."""
        taken, slots = _slots(np.array([file.size for file, _ in vectors], np.int64))
        sets: list[Words | None] = [None] * slots
        for slot, (file, vector) in zip(taken, vectors, strict=True):
            sets[slot] = _bitmap(vector, file.row_count)
        return cls(slots, serialized(sets))


def is_live(session: Any, bitmaps: Bitmaps) -> Any:
    """The condition, an expression of Catalyst, that a row of a parquet scan with the column :data:`POSITION` is not
    deleted. Requires: the files of ``bitmaps`` have the sizes that Spark finds."""
    slot = f"CAST({_SIZE} & {bitmaps.slots - 1} AS INT)"
    deleted = contains(session, bitmaps.sets, slot, _POSITION, _UNKNOWN)
    return jvm_class(session.sparkContext._jvm, f"{EXPRESSIONS}.Not")(deleted)


def _bitmap(vector: DeletionVector, row_count: int) -> Words:
    """Bit (p & 63) of word (p >> 6): position p."""
    bits = np.zeros(64 * _words(row_count), np.bool_)
    bits[vector.positions()] = True
    return np.packbits(bits, bitorder="little").view("<i8")


def _words(row_count: int) -> int:
    return -(-row_count // 64)


def _slots(sizes: Int64Array) -> tuple[Int64Array, int]:
    """Slots that are different for all sizes, out of how many; of ``n`` sizes it takes some n² / 2. Empty: more than
    there may be."""
    count = _FEWEST_SLOTS
    while count <= _MOST_SLOTS:
        taken = sizes & (count - 1)
        if len(np.unique(taken)) == len(sizes):
            return taken, count
        count *= 2
    return sizes[:0], 0
