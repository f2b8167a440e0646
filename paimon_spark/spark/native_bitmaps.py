"""Deleted rows of a few files that Spark's own reader reads, without a join.

Spark fills the column :data:`POSITION` of a parquet scan with the position of each row in its file, and knows the size
of that file. The bitmaps of all files of a scan are one array of 64-bit numbers, which reaches the tasks as the value
of a scalar subquery, so that no plan ever shows it. For ``n`` files and a modulus ``m`` by which their sizes differ::

    m x 64 bits                 size of the file in slot (size % m), else 0
    m x 64 bits                 where in this array the bitmap of the file in that slot begins
    ceil(rows / 64) x 64 bits   a file: bit (position & 63) of word (position >> 6): deleted

A row costs three loads and a remainder; a join costs a hash, a probe and a row of the other side. But every task of a
stage gets the whole array along with its code, so there is a bound on it (``BYTES``, ``FILES``), and beyond there is
:mod:`paimon_spark.spark.native_deletions`. A row of a file that is not in the array, or has no position, is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as spark

from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.deletion_vector import DeletionVector
from paimon_spark.options import MB
from paimon_spark.spark.native_columns import POSITION, fresh_name, quoted

FILES = 256
BYTES = 16 * MB

Int64Array = npt.NDArray[np.int64]


def bitmap_bytes(row_count: int) -> int:
    """Bytes of the bitmap of a file of ``row_count`` rows."""
    return 8 * _words(row_count)


def are_told_apart(sizes: Sequence[int]) -> bool:
    """Whether files of these sizes can be masked in one scan: they are few, and no two are alike."""
    return len(sizes) <= FILES and len(set(sizes)) == len(sizes)


def without_deleted_of(session: Any, rows: Any, size: str, vectors: Sequence[tuple[DataFile, DeletionVector]]) -> Any:
    """The DataFrame ``rows`` without its deleted rows. The column ``size`` is the size of a row's file, and its
    position is in :data:`POSITION`.

    ``vectors`` are (file, its :class:`DeletionVector`) pairs. Requires: the sizes of the files are told apart.
    """
    modulus, numbers = _numbers(vectors)
    name = fresh_name("numbers", rows.columns)
    column = spark.StructField(name, spark.ArrayType(spark.LongType(), False), False)
    array = pa.ListArray.from_arrays(pa.array(np.array([0, len(numbers)], np.int32)), pa.array(numbers))
    whole = session.createDataFrame(pa.table({name: array}), spark.StructType([column])).scalar()

    def number(at: str) -> str:
        return f"get({quoted(name)}, CAST({at} AS INT))"

    slot = f"{quoted(size)} % {modulus}"
    word = number(f"shiftright({POSITION}, 6) + {number(f'{slot} + {modulus}')}")
    known = f"CASE WHEN {number(slot)} = {quoted(size)} THEN {word} END"
    bit = f"shiftright({known}, CAST({POSITION} & 63 AS INT)) & 1"
    unknown = "raise_error('Spark reads a row that is not in the deletion vectors of this table')"
    return rows.withColumn(name, whole).where(f"coalesce({bit}, {unknown}) = 0")


def _numbers(vectors: Sequence[tuple[DataFile, DeletionVector]]) -> tuple[int, Int64Array]:
    sizes = np.array([file.size for file, _ in vectors], np.int64)
    modulus = _modulus(sizes)
    table = np.zeros(2 * modulus, np.int64)
    table[sizes % modulus] = sizes
    lengths = [_words(file.row_count) for file, _ in vectors]
    table[modulus + sizes % modulus] = len(table) + np.cumsum([0, *lengths[:-1]])
    bits = np.zeros(64 * sum(lengths), np.bool_)
    start = 0
    for (_, vector), words in zip(vectors, lengths, strict=True):
        bits[start + vector.positions()] = True
        start += 64 * words
    return modulus, np.concatenate([table, np.packbits(bits, bitorder="little").view("<i8")])


def _modulus(sizes: Int64Array) -> int:
    """A small number by which all ``sizes`` leave different remainders; of ``n`` sizes it is some n² / 2."""
    modulus = max(1, len(sizes) ** 2 // 2)
    while len(np.unique(sizes % modulus)) < len(sizes):
        modulus += 1
    return modulus


def _words(row_count: int) -> int:
    return -(-row_count // 64)
