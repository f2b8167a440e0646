"""ParquetInput: reading parquet files, whoever wrote them. Page checksums are verified where a file has them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_spark.predicate import BoolArray, Comparison, Predicate


class ParquetInput:
    """An open parquet file."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._file = pq.ParquetFile(source, page_checksum_verification=True)
        self._metadata = self._file.metadata
        self._schema: pa.Schema = self._file.schema_arrow

    @property
    def columns(self) -> Collection[str]:
        """Names of the columns in the file."""
        names: list[str] = self._schema.names
        return names

    @property
    def group_rows(self) -> Sequence[int]:
        """Number of rows of each row group."""
        return [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]

    def may_match(self, predicate: Predicate, columns: Mapping[str, str]) -> BoolArray:
        """Which row groups may hold a satisfying row, by the statistics in the footer."""
        return predicate.may_match(lambda comparison: self._verdict(comparison, columns.get(comparison.column)))

    def batches(self, columns: Sequence[str], groups: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of ``groups`` in order.

        One row group is asked for at a time, because Arrow keeps the bytes of all that it was asked for to the end.
        """
        for group in groups:
            yield from self._file.iter_batches(
                batch_size=batch_rows, row_groups=[group], columns=list(columns), use_threads=False
            )

    def _verdict(self, comparison: Comparison, column: str | None) -> BoolArray:
        groups = self._metadata.num_row_groups
        leaf = None if column is None else self._leaves().get(column)
        if column is None or leaf is None:
            return np.ones(groups, np.bool_)
        chunks = [self._metadata.row_group(group).column(leaf).statistics for group in range(groups)]
        counted = [s is not None and s.has_null_count for s in chunks]
        nulls = pa.array(
            [s.null_count if known else None for s, known in zip(chunks, counted, strict=True)], pa.int64()
        )
        type_ = pa.null() if comparison.value is None else comparison.value.type
        lower = pa.array([_bound(s, "min", type_) for s in chunks], type_)
        upper = pa.array([_bound(s, "max", type_) for s in chunks], type_)
        return comparison.may_match(lower, upper, nulls, pa.array(self.group_rows, pa.int64()))

    def _leaves(self) -> dict[str, int]:
        """The position of each flat column among the file's leaves."""
        schema = self._metadata.schema
        return {
            schema.column(i).path: i for i in range(len(schema)) if schema.column(i).path in set(self._schema.names)
        }


def _bound(statistics: pq.Statistics | None, which: str, type_: pa.DataType) -> pa.Scalar:
    """A bound from the footer; null when it is unknown or, as dates after the year 9999, no Python value."""
    if statistics is None or not statistics.has_min_max or pa.types.is_null(type_):
        return pa.scalar(None, type_)
    try:
        return pa.scalar(getattr(statistics, which), type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.scalar(None, type_)
