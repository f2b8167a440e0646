"""Which buckets a filter on the bucket key leaves (Java's BucketSelectConverter)."""

from __future__ import annotations

import itertools
from functools import lru_cache

import pyarrow as pa

from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import BUCKET, BUCKET_FUNCTION
from paimon_spark.predicate import Comparison, Predicate
from paimon_spark.rows.bucket import assign_buckets
from paimon_spark.types import arrow_type

_MOST_KEYS = 1000


class BucketPruning:
    """Tells whether a bucket may hold rows that satisfy a predicate.

    Only equalities and IN lists on every bucket-key column of a fixed-bucket table select buckets; all else keeps
    every bucket. Floating point keys keep every bucket too: 0.0 and -0.0 are equal to a filter, not to a bucket.
    """

    def __init__(self, schema: TableSchema, predicate: Predicate | None) -> None:
        self._fields = [schema.field(name) for name in schema.bucket_keys]
        self._function = schema.options.get_option(BUCKET_FUNCTION)
        fixed = schema.options.get_option(BUCKET) > 0 and self._function != "hive"
        self._keys = self._selected_keys(predicate) if fixed and predicate is not None else None
        self._allowed = lru_cache(maxsize=64)(self._buckets)

    def keeps(self, bucket: int, total_buckets: int) -> bool:
        """Whether the bucket, of a partition with that many buckets, may hold matching rows."""
        return self._keys is None or total_buckets <= 0 or bucket in self._allowed(total_buckets)

    def _buckets(self, total: int) -> frozenset[int]:
        if not self._keys:
            return frozenset()
        types = [f.type for f in self._fields]
        columns = [pa.array(v, arrow_type(t)) for v, t in zip(zip(*self._keys, strict=True), types, strict=True)]
        return frozenset(assign_buckets(columns, types, total, self._function).tolist())

    def _selected_keys(self, predicate: Predicate) -> list[tuple[object, ...]] | None:
        """All bucket keys that may satisfy the predicate; None when they cannot be counted out."""
        keys: list[tuple[object, ...]] = []
        for group in predicate.any_of:
            values = [self._values(group, f.name) for f in self._fields]
            if any(v is None for v in values):
                return None
            keys.extend(itertools.islice(itertools.product(*[v or () for v in values]), _MOST_KEYS + 1))
            if len(keys) > _MOST_KEYS:
                return None
        return keys

    @staticmethod
    def _values(group: tuple[Comparison, ...], column: str) -> list[object] | None:
        """The values that ``group`` leaves to ``column``; None when it leaves unknown ones."""
        found: list[object] | None = None
        for comparison in group:
            if comparison.column != column or comparison.operator not in ("==", "in"):
                continue
            listed = [comparison.value] if comparison.operator == "==" else list(comparison.value)
            if any(pa.types.is_floating(value.type) for value in listed):
                continue
            values = [value.as_py() for value in listed if value.is_valid]
            found = values if found is None else [v for v in found if v in values]
        return found
