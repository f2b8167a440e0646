"""The rows of the benchmarks: closed formulas, so that Java and Python make the same ones.

Columns: k BIGINT (the key), i1 s1 i2 s2 i3 s3 i4 s4 i5 (5 INT, 4 STRING, nullable). Of row r, with K distinct keys:
k = (r mod K) * M[r div K] mod K; column j = 1 … 9 is null iff (r + j) mod 3 = 0, an INT is (r * 31 + j) & 0x7fffffff,
a STRING is "s<j>-<r mod 100000>".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = ("k", "i1", "s1", "i2", "s2", "i3", "s3", "i4", "s4", "i5")
FEW_COLUMNS = ("k", "i1", "s1")
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        *(pa.field(name, pa.int32() if name[0] == "i" else pa.string()) for name in COLUMNS[1:]),
    ]
)
OPTIONS = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "file.format": "parquet",
    "file.compression": "zstd",
    "write-only": "true",
}
_MULTIPLIERS = np.array([7919, 104729, 1299709, 15485863, 32452843, 49979687])


def rows(start: int, end: int, keys: int) -> pa.Table:
    """Rows ``start`` to ``end`` (exclusive) of a table with ``keys`` distinct keys."""
    r = np.arange(start, end, dtype=np.int64)
    columns: list[pa.Array] = [pa.array((r % keys) * _MULTIPLIERS[r // keys % 6] % keys)]
    for j, name in enumerate(COLUMNS[1:], 1):
        absent = (r + j) % 3 == 0
        if name[0] == "i":
            columns.append(pa.array(((r * 31 + j) & 0x7FFFFFFF).astype(np.int32), mask=absent))
        else:
            texts = pa.array([f"s{j}-{n}" for n in range(100_000)])
            columns.append(texts.take(pa.array(r % 100_000, mask=absent)))
    return pa.table(columns, schema=SCHEMA)


def checksum(table: pa.Table) -> dict[str, list[int]]:
    """By column: how many values, and the sum of the integers or of the bytes of the texts."""
    result = {}
    for name in table.column_names:
        column = table[name]
        total = pc.sum(column if pa.types.is_integer(column.type) else pc.binary_length(column)).as_py()
        result[name] = [len(column) - column.null_count, int(total or 0)]
    return result
