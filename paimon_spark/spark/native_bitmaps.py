"""Deleted rows of a few files that Spark's own reader reads, without a join.

Spark fills the column :data:`POSITION` of a parquet scan with the position of each row in its file, and knows the size
of that file. The bitmaps of all files of a scan are one array of 64-bit numbers
(:mod:`paimon_spark.spark.native_array`), which no plan shows::

    ceil(rows / 64) x 64 bits   a file: bit (position & 63) of word (position >> 6): deleted

Where the bitmap of a file begins is a choice by its size, written into the condition, the file of most rows first; of
more than ``CHOICES`` files it is in the array too, for ``n`` files and a modulus ``m`` by which their sizes differ::

    m x 64 bits                 size of the file in slot (size % m), else 0
    m x 64 bits                 where in this array the bitmap of the file in that slot begins

A row costs one load, or three and a remainder; a join costs a hash, a probe and a row of the other side. But every task
of a stage gets the whole array along with its code, so there is a bound on it (``BYTES``, ``FILES``), and beyond there
is :mod:`paimon_spark.spark.native_deletions`. A row of a file that is not known, or has no position, is an error.

The condition is text where it can be, and the rest is put together in the JVM: each operator between two columns of
Python is a dozen calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame

from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.deletion_vector import DeletionVector
from paimon_spark.options import MB
from paimon_spark.spark.native_array import array_column
from paimon_spark.spark.native_columns import METADATA, POSITION

FILES = 256
CHOICES = 8
BYTES = 16 * MB
_SIZE = f"{METADATA}.file_size"
_WORD = f"shiftright(CAST({POSITION} AS INT), 6)"
_BIT = f"CAST({POSITION} & 63 AS INT)"
_UNKNOWN = "raise_error('Spark reads a row that is not in the deletion vectors of this table')"

Int64Array = npt.NDArray[np.int64]


def bitmap_bytes(row_count: int) -> int:
    """Bytes of the bitmap of a file of ``row_count`` rows."""
    return 8 * _words(row_count)


def are_told_apart(sizes: Sequence[int]) -> bool:
    """Whether files of these sizes can be masked in one scan: they are few, and no two are alike."""
    return len(sizes) <= FILES and len(set(sizes)) == len(sizes)


def without_deleted_of(session: Any, rows: Any, vectors: Sequence[tuple[DataFile, DeletionVector]]) -> Any:
    """The DataFrame ``rows``, a parquet scan with the column :data:`POSITION`, without its deleted rows.

    ``vectors`` are (file, its :class:`DeletionVector`) pairs. Requires: the sizes of the files are told apart.
    """
    vectors = sorted(vectors, key=lambda pair: pair[0].row_count, reverse=True)
    words, starts = _bitmaps(vectors)
    sizes = np.array([file.size for file, _ in vectors], np.int64)
    functions = getattr(session.sparkContext._jvm, "org.apache.spark.sql.functions")
    if len(vectors) <= CHOICES:
        array = array_column(session, words)
        choices = " ".join(f"WHEN {size}L THEN {at}" for size, at in zip(sizes.tolist(), starts.tolist(), strict=True))
        index = functions.expr(f"{_WORD} + CASE {_SIZE} {choices} END")
    else:
        table = _table(sizes, starts)
        array = array_column(session, np.concatenate([table, words]))
        slot, modulus = f"CAST({_SIZE} % {len(table) // 2} AS INT)", len(table) // 2
        known = functions.get(array, functions.expr(slot)).equalTo(functions.expr(_SIZE))
        start = functions.when(known, functions.get(array, functions.expr(f"{slot} + {modulus}")))
        index = functions.expr(_WORD).plus(start.cast("int"))
    bit = functions.getbit(functions.get(array, index), functions.expr(_BIT))
    kept = functions.nvl(bit, functions.expr(_UNKNOWN)).equalTo(0)
    return DataFrame(rows._jdf.filter(kept), session)


def _bitmaps(vectors: Sequence[tuple[DataFile, DeletionVector]]) -> tuple[Int64Array, Int64Array]:
    """The words of all files, one after the other, and where those of each begin."""
    lengths = [_words(file.row_count) for file, _ in vectors]
    starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
    bits = np.zeros(64 * sum(lengths), np.bool_)
    for (_, vector), start in zip(vectors, starts, strict=True):
        bits[64 * start + vector.positions()] = True
    return np.packbits(bits, bitorder="little").view("<i8"), starts


def _table(sizes: Int64Array, starts: Int64Array) -> Int64Array:
    """By the remainder of its size, the size of a file and where its words begin behind this table."""
    modulus = _modulus(sizes)
    table = np.zeros(2 * modulus, np.int64)
    table[sizes % modulus] = sizes
    table[modulus + sizes % modulus] = len(table) + starts
    return table


def _modulus(sizes: Int64Array) -> int:
    """A small number by which all ``sizes`` leave different remainders; of ``n`` sizes it is some n² / 2."""
    modulus = max(1, len(sizes) ** 2 // 2)
    while len(np.unique(sizes % modulus)) < len(sizes):
        modulus += 1
    return modulus


def _words(row_count: int) -> int:
    return -(-row_count // 64)
