"""Deleted rows of files that Spark's own reader reads, where they are many or large, or their sizes alike.

:mod:`paimon_spark.spark.native_bitmaps` is for the others, where this Spark has the classes that it needs. Spark knows
the position of each row in its file, and which file that is. The deletion vectors of all files are broadcast, cut into
chunks, and every row asks for the chunk that it lies in::

    file        64 bits   hash of the file's name; the upper 44 bits are different for all files of a plan
    chunk       = position >> 12
    key         = file ^ chunk                          (chunk < 2**19, so keys of different files differ)
    words       64 x 64 bits                            bit (position & 63) of word (position >> 6) & 63: deleted

A chunk without deleted rows is not there. The join is an outer one on one 64-bit number, into a few hundred kilobytes
for five million rows, however many of them are deleted: an anti-join on (file, position) has an entry a deleted row and
twice the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as spark

from paimon_spark.metadata.deletion_vector import DeletionVector
from paimon_spark.metadata.vector_range import DeletionVectorRef
from paimon_spark.spark.native_columns import POSITION, fresh_name, quoted

_CHUNK_BITS = 12
_CHUNK_ROWS = 1 << _CHUNK_BITS
_WORDS = _CHUNK_ROWS // 64
NUMBER_SHIFT = 20
_CHUNK_BYTES = 8 * _WORDS + 64

Int64Array = npt.NDArray[np.int64]


def broadcast_bytes(ref: DeletionVectorRef | None, more: int, row_count: int) -> int:
    """At most so many bytes are broadcast for the vector of a file of ``row_count`` rows, if there is one, and ``more``
    rows that are to be left out."""
    chunks = -(-row_count // _CHUNK_ROWS)
    deleted = 0 if ref is None else chunks if ref.cardinality is None else ref.cardinality
    return min(chunks, deleted + more) * _CHUNK_BYTES


def without_deleted(session: Any, rows: Any, file: str, vectors: Sequence[tuple[int, DeletionVector]]) -> Any:
    """The DataFrame ``rows`` without its deleted rows. The column ``file`` is the number of a row's file, and its
    position is in :data:`POSITION`.

    ``vectors`` are (number of the file, its :class:`DeletionVector`) pairs.
    """
    key, words = (fresh_name(name, rows.columns) for name in ("key", "words"))
    schema = spark.StructType(
        [spark.StructField(key, spark.LongType()), spark.StructField(words, spark.ArrayType(spark.LongType()))]
    )
    chunks = session.createDataFrame(_chunk_table(vectors).rename_columns([key, words]), schema)
    own = f"{quoted(key)} = {quoted(file)} ^ shiftright({POSITION}, {_CHUNK_BITS})"
    word = f"get({quoted(words)}, CAST(shiftright({POSITION}, 6) & {_WORDS - 1} AS INT))"
    bit = f"shiftright({word}, CAST({POSITION} & 63 AS INT)) & 1"
    return rows.join(F.broadcast(chunks), F.expr(own), "left").where(f"coalesce({bit}, 0) = 0")


def _chunk_table(vectors: Sequence[tuple[int, DeletionVector]]) -> pa.Table:
    keys: list[Int64Array] = []
    words: list[Int64Array] = []
    for number, vector in vectors:
        positions = vector.positions()
        numbers, index = np.unique(positions >> _CHUNK_BITS, return_inverse=True)
        bits = np.zeros(len(numbers) * _CHUNK_ROWS, np.bool_)
        bits[index * _CHUNK_ROWS + (positions & (_CHUNK_ROWS - 1))] = True
        keys.append(numbers ^ np.int64(number))
        words.append(np.packbits(bits, bitorder="little").view("<i8"))
    flat = np.concatenate([np.zeros(0, np.int64), *words])
    offsets = np.arange(0, len(flat) + 1, _WORDS, dtype=np.int32)
    return pa.table(
        {
            "key": pa.array(np.concatenate([np.zeros(0, np.int64), *keys])),
            "words": pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat)),
        }
    )
