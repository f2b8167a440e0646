"""Planning: from a snapshot to splits, leaving out what no reader needs to open.

What may be left out, and why no more. Partitions and buckets are exact. A file is dropped by
its *key* statistics, because every version of a key that the filter wants is in a file whose key range holds it. A file
is dropped by its *value* statistics only where it overlaps no other file that is left: of two versions (k, v=100) and
(k, v=10), of which the second is newer, a filter v >= 100 that dropped the second file would resurrect the first.
Where deletion vectors cover every older version (no file at level 0), files do not depend on one another either.

Source: ``KeyValueFileStoreScan``, ``MergeTreeSplitGenerator`` and ``SnapshotReaderImpl`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paimon_spark.files.statistics import column_statistics
from paimon_spark.merge.sections import file_key_ranges, sections
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.metadata.vector_range import DeletionVectorRef
from paimon_spark.options import DELETION_VECTORS, DV_MERGE_ON_READ, SPLIT_OPEN_COST, SPLIT_TARGET_SIZE
from paimon_spark.predicate import BoolArray, Comparison, Predicate
from paimon_spark.read.bucket_pruning import BucketPruning
from paimon_spark.read.partition_pruning import PartitionPruning
from paimon_spark.read.split import Split

Section = tuple[DataFile, ...]


@dataclass(frozen=True)
class Planner:
    """Plans snapshots of one table for one filter."""

    metadata: TableMetadata
    schema: TableSchema
    predicate: Predicate | None

    def splits(self, snapshot: Snapshot) -> list[Split]:
        """The splits of the snapshot, by partition and bucket."""
        entries = self._live_entries(snapshot)
        vectors = self._deletion_vectors(snapshot)
        kept = self._matching([e.file for e in entries], key=True)
        buckets: dict[tuple[bytes, int], list[DataFile]] = {}
        for entry, keep in zip(entries, kept, strict=True):
            if keep:
                buckets.setdefault((entry.partition, entry.bucket), []).append(entry.file)
        planned = self._cut_into_sections(list(buckets.values()))
        target = self.schema.options.get_option(SPLIT_TARGET_SIZE)
        open_cost = self.schema.options.get_option(SPLIT_OPEN_COST)
        result: list[Split] = []
        for (partition, bucket), cut in zip(buckets, planned, strict=True):
            bucket_vectors = vectors.get((partition, bucket), {})
            for packed in _pack_in_order(cut, target, open_cost):
                files = {file.name for section in packed for file in section}
                deletions = {name: ref for name, ref in bucket_vectors.items() if name in files}
                result.append(Split(snapshot.id, partition, bucket, tuple(packed), deletions))
        return result

    # ------------------------------------------------------------------ pruning

    def _live_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        if self.predicate is None:
            entries = live_files(self.metadata, snapshot)
        else:
            partitions = PartitionPruning(self.schema, self.predicate)
            buckets = BucketPruning(self.schema, self.predicate)
            entries = live_files(
                self.metadata,
                snapshot,
                keep_manifest=partitions.keeps_manifest,
                keep_entry=lambda partition, bucket, total: (
                    partitions.keeps(partition) and buckets.keeps(bucket, total)
                ),
            )
        lowest = 1 if self._deletion_vectors_on and not self.schema.options.get_option(DV_MERGE_ON_READ) else 0
        # Buckets below zero hold rows that no compaction has yet assigned to a real bucket.
        return [e for e in entries if e.bucket >= 0 and e.file.level >= lowest]

    @property
    def _deletion_vectors_on(self) -> bool:
        return self.schema.options.get_option(DELETION_VECTORS)

    def _deletion_vectors(self, snapshot: Snapshot) -> Mapping[tuple[bytes, int], Mapping[str, DeletionVectorRef]]:
        return self.metadata.indexes.deletion_vectors(snapshot) if self._deletion_vectors_on else {}

    def _matching(self, files: Sequence[DataFile], *, key: bool) -> BoolArray:
        """Which files may hold rows that satisfy the filter on the key columns, or on all columns."""
        keys = {f.name for f in self.schema.key_fields}
        columns = keys if key else {f.name for f in self.schema.fields}
        predicate = None if self.predicate is None else self.predicate.restricted(columns)
        if predicate is None or not files:
            return np.ones(len(files), np.bool_)

        def verdict(comparison: Comparison) -> BoolArray:
            field, is_key = self.schema.field(comparison.column), comparison.column in keys
            return comparison.may_match(*column_statistics(files, self.metadata.schemas.get, field, key=is_key))

        return predicate.may_match(verdict)

    # ------------------------------------------------------------------ sections and splits

    def _cut_into_sections(self, buckets: Sequence[list[DataFile]]) -> list[list[Section]]:
        """Each bucket as sections, without the lone files that hold no row for the filter."""
        merged = [files for files in buckets if len(files) > 1 and not self._independent(files)]
        mins, maxs = file_key_ranges([f for files in merged for f in files], [f.type for f in self.schema.key_fields])
        cut: list[list[Section]] = []
        start = 0
        for files in buckets:
            if len(files) == 1 or self._independent(files):
                cut.append([(file,) for file in files])
                continue
            stop = start + len(files)
            groups = sections(mins[start:stop], maxs[start:stop])
            cut.append([tuple(files[i] for i in group) for group in groups])
            start = stop
        return self._without_hopeless(cut)

    def _independent(self, files: Sequence[DataFile]) -> bool:
        """Whether every file of the bucket can be read on its own: none at level 0, none with deletes, and either
        vectors mask all older versions or there is just one level."""
        if any(f.level == 0 or f.delete_row_count != 0 for f in files):
            return False
        return self._deletion_vectors_on or len({f.level for f in files}) == 1

    def _without_hopeless(self, buckets: list[list[Section]]) -> list[list[Section]]:
        alone = [section[0] for cut in buckets for section in cut if len(section) == 1]
        kept = iter(self._matching(alone, key=False))
        return [[s for s in cut if len(s) > 1 or next(kept)] for cut in buckets]


def _pack_in_order(items: Iterable[Section], target: int, open_cost: int) -> Iterator[list[Section]]:
    """Sections packed in order into groups of at most ``target`` bytes; a small section counts ``open_cost``."""
    packed: list[Section] = []
    weight = 0
    for section in items:
        size = max(sum(f.size for f in section), open_cost)
        if packed and weight + size > target:
            yield packed
            packed, weight = [], 0
        packed.append(section)
        weight += size
    if packed:
        yield packed
