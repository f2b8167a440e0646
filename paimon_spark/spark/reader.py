"""PaimonReader: one scan, as Spark partitions.

A partition carries one split, or several small ones. A source cannot ask Spark how many cores there are, so small
splits are packed only when there are more than ``_PARTITIONS`` of them: ten thousand little buckets should neither be
ten thousand tasks nor a single one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_spark.options import SPLIT_OPEN_COST, SPLIT_TARGET_SIZE
from paimon_spark.read.scan import Scan
from paimon_spark.read.split import Split
from paimon_spark.spark.batches import outgoing, outgoing_schema
from paimon_spark.spark.failures import readable
from paimon_spark.spark.types import requested_columns, spark_schema

_PARTITIONS = 200


def scan_schema(scan: Scan) -> Any:
    """The Spark schema (StructType) of a scan's columns."""
    return spark_schema([scan.table_schema.field(name) for name in scan.columns])


class PaimonPartition(InputPartition):  # type: ignore[misc]
    """Splits for one task. ``value`` is their number, which Spark shows."""

    def __init__(self, splits: Sequence[Split]) -> None:
        super().__init__(len(splits))
        self.splits = tuple(splits)


class PaimonReader(DataSourceReader):  # type: ignore[misc]
    """Reads one scan; see :meth:`of`. Travels to the tasks without the plan, whose parts the partitions carry."""

    def __init__(self, scan: Scan, schema: pa.Schema) -> None:
        self._scan = scan
        self._schema = schema

    @classmethod
    def of(cls, scan: Scan, schema: Any) -> PaimonReader:
        """A reader of ``scan``'s rows with the columns of ``schema``, a StructType.

        :raises InvalidInput: ``schema`` is not a selection of the scan's columns
        """
        columns = requested_columns(schema, scan_schema(scan))
        return cls(replace(scan, columns=columns), outgoing_schema(schema))

    def partitions(self) -> list[Any]:
        """One partition a task; a single one without splits when there is nothing to read."""
        scan = replace(self._scan)
        options = scan.table_schema.options
        with readable():
            packed = pack(scan.splits, options.get_option(SPLIT_TARGET_SIZE), options.get_option(SPLIT_OPEN_COST))
        return [PaimonPartition(splits) for splits in packed or [[]]]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in exactly the types that Spark expects."""
        with readable():
            for split in partition.splits:
                for batch in self._scan.read_split(split):
                    yield outgoing(batch, self._schema)


def pack(splits: Sequence[Split], target: int, open_cost: int) -> list[list[Split]]:
    """The splits in their order, several together where they are small.

    A pack has at most ``target`` bytes, and no more than a ``_PARTITIONS``-th of all bytes, unless a single split has;
    opening a split counts as ``open_cost`` bytes.
    """
    weights = [split.size + open_cost for split in splits]
    limit = min(target, sum(weights) // _PARTITIONS)
    packs: list[list[Split]] = []
    filled = limit
    for split, weight in zip(splits, weights, strict=True):
        if not packs or filled + weight > limit:
            packs.append([])
            filled = 0
        packs[-1].append(split)
        filled += weight
    return packs
