"""Deleted rows of a few files that Spark's own reader reads, without a join.

Spark fills the column :data:`POSITION` of a parquet scan with the position of each row in its file, and knows the size
of that file. The bitmaps of all files of a scan are one array of 64-bit numbers, which reaches the tasks as the value
of a scalar subquery, so that no plan ever shows it::

    ceil(rows / 64) x 64 bits   a file: bit (position & 63) of word (position >> 6): deleted

Where the bitmap of a file begins is a choice by its size, written into the condition; of more than ``CHOICES`` files it
is in the array too, for ``n`` files and a modulus ``m`` by which their sizes differ::

    m x 64 bits                 size of the file in slot (size % m), else 0
    m x 64 bits                 where in this array the bitmap of the file in that slot begins

A row costs one load, or three and a remainder; a join costs a hash, a probe and a row of the other side. But every task
of a stage gets the whole array along with its code, so there is a bound on it (``BYTES``, ``FILES``), and beyond there
is :mod:`paimon_spark.spark.native_deletions`. A row of a file that is not known, or has no position, is an error.

The condition is text where it can be: Spark analyses every node of it, and each operator between two columns of Python
is a dozen calls into the JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as spark

from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.deletion_vector import DeletionVector
from paimon_spark.options import MB
from paimon_spark.spark.native_columns import METADATA, POSITION

FILES = 256
CHOICES = 8
BYTES = 16 * MB
_SIZE = f"{METADATA}.file_size"
_WORD = f"shiftright(CAST({POSITION} AS INT), 6)"

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
    words, starts = _bitmaps(vectors)
    sizes = np.array([file.size for file, _ in vectors], np.int64)
    if len(vectors) <= CHOICES:
        array = _subquery(session, words)
        choices = " ".join(f"WHEN {size}L THEN {at}" for size, at in zip(sizes.tolist(), starts.tolist(), strict=True))
        index = F.expr(f"{_WORD} + CASE {_SIZE} {choices} END")
    else:
        table = _table(sizes, starts)
        array = _subquery(session, np.concatenate([table, words]))
        slot, modulus = F.expr(f"CAST({_SIZE} % {len(table) // 2} AS INT)"), len(table) // 2
        start = F.when(F.get(array, slot) == F.expr(_SIZE), F.get(array, slot + modulus))
        index = F.expr(_WORD) + start.cast("int")
    bit = F.getbit(F.get(array, index), F.expr(f"CAST({POSITION} & 63 AS INT)"))
    unknown = F.expr("raise_error('Spark reads a row that is not in the deletion vectors of this table')")
    return rows.where(F.nvl(bit, unknown) == 0)


def _subquery(session: Any, numbers: Int64Array) -> Any:
    """A column whose value is the array ``numbers``. Spark finds it on the driver, without a job."""
    array = pa.ListArray.from_arrays(pa.array(np.array([0, len(numbers)], np.int32)), pa.array(numbers))
    schema = spark.StructType([spark.StructField("numbers", spark.ArrayType(spark.LongType(), False), False)])
    return session.createDataFrame(pa.table({"numbers": array}), schema).scalar()


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
