"""Deleted rows of a few files that Spark's own reader reads, without a join.

Spark fills the column :data:`POSITION` of a parquet scan with the position of each row in its file, and knows the size
of that file. The bitmaps of all files of a scan are one array of 64-bit numbers
(:mod:`paimon_spark.spark.native_array`), which no plan shows, behind a table of where they begin, by the lowest bits of
the sizes of the files, which are different for all of them::

    2**k x 64 bits              slot (size & (2**k - 1)): where in this array the bitmap of the file begins; else 2**30
    ceil(rows / 64) x 64 bits   a file: bit (position & 63) of word (position >> 6): deleted

A row costs two loads; a join costs a hash, a probe and a row of the other side. But every task of a stage gets the
whole array along with its code, so there is a bound on it (``BYTES``, ``FILES``), and beyond there is
:mod:`paimon_spark.spark.native_deletions`. A row that has no slot, or no position, is an error.

The condition is text where it can be, and the rest is put together in the JVM: each operator between two columns of
Python is a dozen calls. What differs from snapshot to snapshot is in the array: Spark compiles the code of a scan once
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
from paimon_spark.spark.native_array import array_column
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
    """Bytes of the bitmap of a file of ``row_count`` rows."""
    return 8 * _words(row_count)


def are_told_apart(sizes: Sequence[int]) -> bool:
    """Whether files of these sizes can be masked in one scan: they are few, and their lowest bits tell them apart."""
    return len(sizes) <= FILES and _slots(np.array(sizes, np.int64)) is not None


class Bitmaps(NamedTuple):
    """The bitmaps of some files, as the array that this module describes, whose first ``slots`` numbers are slots."""

    slots: int
    numbers: Int64Array

    @classmethod
    def of(cls, vectors: Sequence[tuple[DataFile, DeletionVector]]) -> Bitmaps:
        """Of (file, its :class:`DeletionVector`) pairs. Requires: the sizes of the files are told apart."""
        slots = _slots(np.array([file.size for file, _ in vectors], np.int64))
        assert slots is not None
        words, starts = _bitmaps(vectors)
        return cls(slots.mask + 1, np.concatenate([slots.table(starts), words]))


def without_deleted_of(session: Any, rows: Any, bitmaps: Bitmaps) -> Any:
    """The DataFrame ``rows``, a parquet scan with the column :data:`POSITION`, without its deleted rows.

    Requires: the files of ``bitmaps`` have the sizes that Spark finds.
    """
    array = array_column(session, bitmaps.numbers)
    jvm = session.sparkContext._jvm
    get, getbit, nvl = (jvm_static(jvm, FUNCTIONS, name) for name in ("get", "getbit", "nvl"))
    start = get(array, jvm_expression(jvm, f"{_SIZE} & {bitmaps.slots - 1}"))
    word = get(array, start.plus(jvm_expression(jvm, _WORD)))
    bit = nvl(getbit(word, jvm_expression(jvm, _BIT)), jvm_expression(jvm, _UNKNOWN))
    return DataFrame(rows._jdf.filter(bit.equalTo(0)), session)


def _bitmaps(vectors: Sequence[tuple[DataFile, DeletionVector]]) -> tuple[Int64Array, Int64Array]:
    """The words of all files, one after the other, and where those of each begin."""
    lengths = [_words(file.row_count) for file, _ in vectors]
    starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
    bits = np.zeros(64 * sum(lengths), np.bool_)
    for (_, vector), start in zip(vectors, starts, strict=True):
        bits[64 * start + vector.positions()] = True
    return np.packbits(bits, bitorder="little").view("<i8"), starts


def _words(row_count: int) -> int:
    return -(-row_count // 64)


class _Slots(NamedTuple):
    """The slots of files of different sizes: ``taken`` by each, out of ``mask`` + 1."""

    mask: int
    taken: Int64Array

    def table(self, starts: Int64Array) -> Int64Array:
        """What the slots hold, where the bitmap of each file begins so many words behind them."""
        table = np.full(self.mask + 1, _NOWHERE, np.int64)
        table[self.taken] = len(table) + starts
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
