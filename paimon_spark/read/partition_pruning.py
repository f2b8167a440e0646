"""Which partitions a filter leaves. Partition values are exact, so these verdicts are too."""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.predicate import BoolArray, Comparison, Predicate
from paimon_spark.rows.binary_row import decode


class PartitionPruning:
    """Tells whether a manifest or a partition may hold rows that satisfy a predicate."""

    def __init__(self, schema: TableSchema, predicate: Predicate | None) -> None:
        self._fields = schema.partition_fields
        self._names = [f.name for f in self._fields]
        self._types = [f.type for f in self._fields]
        self._predicate = None if predicate is None else predicate.restricted(self._names)
        self._known: dict[bytes, bool] = {}

    def keeps(self, partition: bytes) -> bool:
        """Whether the partition (a serialized BinaryRow) satisfies the predicate's partition columns."""
        if self._predicate is None:
            return True
        verdict = self._known.get(partition)
        if verdict is None:
            row = pa.table(decode([partition], self._types), names=self._names)
            verdict = self._known[partition] = bool(self._predicate.mask(row)[0].as_py())
        return verdict

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Whether the manifest's partition statistics leave a partition that may satisfy the predicate."""
        if self._predicate is None:
            return True
        stats = manifest.partition_stats
        lower = decode([stats.lower], self._types)
        upper = decode([stats.upper], self._types)
        rows = pa.array([manifest.added + manifest.deleted], pa.int64())

        def verdict(comparison: Comparison) -> BoolArray:
            i = self._names.index(comparison.column)
            nulls = pa.array([stats.null_counts[i]], pa.int64())
            return comparison.may_match(lower[i], upper[i], nulls, rows)

        return bool(self._predicate.may_match(verdict)[0])
