"""Destinations: which (partition, bucket) each row belongs to, for whole batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow, to_numpy
from paimon_spark.files.key_values import Int64Array, KeyValues
from paimon_spark.metadata.partition import partition_path
from paimon_spark.metadata.paths import TablePaths
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import BUCKET, BUCKET_FUNCTION
from paimon_spark.rows.binary_row import serialize
from paimon_spark.rows.bucket import assign_buckets


@dataclass(frozen=True)
class Destination:
    """One bucket of one partition: the partition as a serialized BinaryRow, and the bucket's directory."""

    partition: bytes
    bucket: int
    directory: str


class Destinations:
    """Splits rows by destination."""

    def __init__(self, schema: TableSchema, paths: TablePaths) -> None:
        self._schema = schema
        self._paths = paths
        self._buckets = schema.options.get_option(BUCKET)
        self._function = schema.options.get_option(BUCKET_FUNCTION)

    def split(self, rows: KeyValues) -> Iterator[tuple[Destination, KeyValues]]:
        """The rows of each destination, in their order; destinations in no particular order.

        A destination's rows are copied when it is asked for, one destination at a time.
        """
        if len(rows) == 0:
            return
        codes, partitions = self._partition_codes(rows.values)
        if self._buckets > 1:
            codes = codes * self._buckets + self._assign(rows.values)
        values = rows.values.combine_chunks()
        combined = KeyValues(values, rows.sequence, rows.kind)
        for code, members in _members(codes):
            partition, bucket = partitions[code // self._buckets], code % self._buckets
            yield (
                Destination(
                    partition[0], bucket, self._paths.bucket_directory(partition[1], bucket, self._schema.options)
                ),
                combined if members is None else combined.take(members),
            )

    def _assign(self, values: pa.Table) -> Int64Array:
        fields = [self._schema.field(name) for name in self._schema.bucket_keys]
        columns = [values.column(f.name) for f in fields]
        return assign_buckets(columns, [f.type for f in fields], self._buckets, self._function).astype(np.int64)

    def _partition_codes(self, values: pa.Table) -> tuple[Int64Array, list[tuple[bytes, str]]]:
        """A dense code for each row's partition, and each code's BinaryRow and path."""
        fields = self._schema.partition_fields
        if not fields:
            return np.zeros(values.num_rows, np.int64), [(serialize([], [])[0], "")]
        codes, count = np.zeros(values.num_rows, np.int64), 1
        for field in fields:
            column, size = _dense_codes(values.column(field.name))
            codes, count = _dense_codes(pa.chunked_array([to_arrow(codes * size + column)]))
        first = np.empty(count, np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        distinct = values.select([f.name for f in fields]).take(to_arrow(first)).combine_chunks()
        serialized = serialize(distinct.columns, [f.type for f in fields])
        options = self._schema.options
        names = [
            partition_path([column[i] for column in distinct.columns], fields, options) for i in range(len(serialized))
        ]
        return codes, list(zip(serialized, names, strict=True))


def _dense_codes(column: pa.ChunkedArray) -> tuple[Int64Array, int]:
    """Small integers that are equal where the values are (floats by their bits), and how many there may be."""
    if pa.types.is_floating(column.type):
        bits = pa.int32() if column.type == pa.float32() else pa.int64()
        column = pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return to_numpy(encoded.indices).astype(np.int64), len(encoded.dictionary)


def _members(codes: Int64Array) -> Iterator[tuple[int, Int64Array | None]]:
    """Each distinct code with the rows that have it, in their order; None stands for all rows."""
    lowest, highest = int(codes.min()), int(codes.max())
    if lowest == highest:
        yield lowest, None
        return
    narrow = codes.astype(np.uint16) if highest < 2**16 else codes  # NumPy sorts 16-bit integers by radix
    order = np.argsort(narrow, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    for start, stop in zip(starts, [*starts[1:], len(codes)], strict=True):
        yield int(ordered[start]), order[start:stop]
