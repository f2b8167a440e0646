"""The bucket of each row, from the columns of the bucket key.

Source: ``DefaultBucketFunction``, ``ModBucketFunction`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.options import BUCKET_FUNCTION
from paimon_spark.rows.arrow_buffers import Column, numbers, plain_array
from paimon_spark.rows.binary_row import encode
from paimon_spark.rows.murmur import hash_rows
from paimon_spark.types import DataType

Int32Array = npt.NDArray[np.int32]

_ROWS_AT_ONCE = 65_536
_BYTES_AT_ONCE = 2**22


def assign_buckets(columns: Sequence[Column], types: Sequence[DataType], num_buckets: int, function: str) -> Int32Array:
    """The bucket, 0 to ``num_buckets`` - 1, of each row.

    ``columns`` and ``types`` are those of the bucket key, in its order. ``function`` is ``default``: the hash of the
    key's BinaryRow, or ``mod``: the remainder of the key itself, never negative, for a single INT or BIGINT key.

    :raises InvalidInput: a number of buckets below one, or an Arrow type that does not fit its type
    :raises UnsupportedFeature: another function, or ``mod`` of another key
    """
    if num_buckets < 1:
        raise InvalidInput(f"rows cannot be spread over {num_buckets} buckets; at least one is needed")
    if function == "mod":
        return _remainders(columns, types, num_buckets)
    if function != "default":
        raise UnsupportedFeature(
            f"option {BUCKET_FUNCTION.key!r} = {function!r} is not supported; 'default' and 'mod' are"
        )
    if num_buckets == 1:
        return np.zeros(len(columns[0]), np.int32)
    buckets: Int32Array = np.abs(np.fmod(_hashes(columns, types), np.int32(num_buckets)))
    return buckets


def _remainders(columns: Sequence[Column], types: Sequence[DataType], num_buckets: int) -> Int32Array:
    if len(types) != 1 or types[0].root not in ("INT", "BIGINT"):
        key = ", ".join(map(str, types))
        raise UnsupportedFeature(
            f"option {BUCKET_FUNCTION.key!r} = 'mod' needs a bucket key of one INT or BIGINT column, not ({key})"
        )
    values = numbers(plain_array(columns[0], types[0]))
    buckets: Int32Array = np.mod(values, num_buckets).astype(np.int32)
    return buckets


def _hashes(columns: Sequence[Column], types: Sequence[DataType]) -> Int32Array:
    """Hashes of the rows' keys, computed on pieces that fit the processor's caches, and an Arrow array."""
    rows = len(columns[0])
    hashes = np.empty(rows, np.int32)
    start = 0
    while start < rows:
        stop = min(start + _ROWS_AT_ONCE, rows)
        part = [column.slice(start, stop - start) for column in columns]
        while stop - start > 1 and sum(column.nbytes for column in part) > _BYTES_AT_ONCE:
            stop = (start + stop) // 2
            part = [column.slice(start, stop - start) for column in columns]
        hashes[start:stop] = hash_rows(encode(part, types))
        start = stop
    return hashes
