"""Bucket owners: a DataFrame shuffled so that all rows of a bucket are in one task.

The owner of a row is a task number, (hash of the partition's BinaryRow + bucket) modulo the number of tasks, so that
the buckets of a partition are spread evenly. From 4.1 on Spark shuffles by such a number: the key columns alone cross
to Python to get it. Spark 4.0 shuffles by its hash of a column only. There the column holds, for task t of n, the
least whole number x ≥ 0 whose hash is t modulo n, and whole rows cross to Python:

    n = 2: hash(0) mod 2 = 1, hash(1) mod 2 = 1, hash(2) mod 2 = 0      task 0 gets x = 2, task 1 gets x = 0

Spark's hash of an INT is Murmur3 of its four bytes, which is what :mod:`paimon_spark.rows.murmur` computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions
from pyspark.sql import types as spark

from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import BUCKET_FUNCTION
from paimon_spark.rows.binary_row import encode
from paimon_spark.rows.bucket import assign_buckets
from paimon_spark.rows.murmur import hash_rows
from paimon_spark.spark.batches import incoming
from paimon_spark.spark.failures import readable
from paimon_spark.types import DataField
from paimon_spark.write.incoming import Incoming

_INTEGERS_AT_ONCE = 4096


def owned_by_bucket(frame: Any, schema: TableSchema, rows: pa.Schema, tasks: int) -> Any:
    """``frame`` (a DataFrame), shuffled over ``tasks`` tasks. The order of the rows is undefined.

    ``rows`` is the Arrow schema that its rows have on the way to the table of ``schema``.
    """
    owners = BucketOwners(schema, rows, tasks)
    column = "__owner"
    while column in frame.columns:
        column += "_"
    if hasattr(frame, "repartitionById"):
        number = functions.arrow_udf(owners.of_struct, "int")
        keys = functions.struct(*(frame[_quoted(f.name)] for f in owners.fields))
        return frame.withColumn(column, number(keys)).repartitionById(tasks, column).drop(column)
    with_number = spark.StructType([*frame.schema.fields, spark.StructField(column, spark.IntegerType())])
    plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))  # it takes no names with dots
    return plain.mapInArrow(partial(owners.appended, column), with_number).repartition(tasks, column).drop(column)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class BucketOwners:
    """Tells the owner of each row. Travels to the tasks."""

    schema: TableSchema
    rows: pa.Schema
    tasks: int

    @property
    def fields(self) -> list[DataField]:
        """The columns that decide: those of the partition and of the bucket key, each once."""
        names = dict.fromkeys((*self.schema.partition_keys, *self.schema.bucket_keys))
        return [self.schema.field(name) for name in names]

    def of_struct(self, keys: pa.Array) -> pa.Array:
        """The owners of rows given as structs of ``fields``, as INT."""
        return pa.array(self._owners(pa.RecordBatch.from_struct_array(keys)), pa.int32())

    def appended(self, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Whole rows by their own names, and behind them ``name``: a number whose hash, modulo tasks, is the owner."""
        names = self.rows.names
        for batch in batches:
            keys = pa.RecordBatch.from_arrays(batch.columns, names).select([field.name for field in self.fields])
            numbers = pa.array(self._inverse[self._owners(keys)], pa.int32())
            yield pa.RecordBatch.from_arrays([*batch.columns, numbers], [*names, name])

    def _owners(self, keys: pa.RecordBatch) -> npt.NDArray[np.int64]:
        schema = self.schema
        with readable():
            plain = incoming(keys, pa.schema([self.rows.field(field.name) for field in self.fields]))
            columns = dict(zip(keys.schema.names, Incoming(schema).columns(plain, self.fields), strict=True))
            bucket_fields = [schema.field(name) for name in schema.bucket_keys]
            buckets = assign_buckets(
                [columns[f.name] for f in bucket_fields],
                [f.type for f in bucket_fields],
                schema.bucket,
                schema.options.get_option(BUCKET_FUNCTION),
            ).astype(np.int64)
            if not schema.partition_keys:
                return buckets % self.tasks
            partition = [columns[f.name] for f in schema.partition_fields]
            hashes = hash_rows(encode(partition, [f.type for f in schema.partition_fields]))
            owners: npt.NDArray[np.int64] = (hashes.astype(np.int64) + buckets) % self.tasks
            return owners

    @cached_property
    def _inverse(self) -> npt.NDArray[np.int32]:
        return inverse(self.tasks)


def inverse(tasks: int) -> npt.NDArray[np.int32]:
    """For each task, the least whole number whose hash by Spark is, modulo ``tasks``, that task."""
    found = np.full(tasks, -1, np.int32)
    start = 0
    while (found < 0).any():
        numbers = np.arange(start, start + _INTEGERS_AT_ONCE, dtype="<i4")
        owners = hash_rows(pa.array(numbers).view(pa.binary(4)).cast(pa.binary())) % tasks
        tasks_met, first = np.unique(owners, return_index=True)
        new = found[tasks_met] < 0
        found[tasks_met[new]] = numbers[first[new]]
        start += _INTEGERS_AT_ONCE
    return found
