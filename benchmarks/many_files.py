"""A table of 10,000 files in 100 manifests that has no data: only its metadata is ever read.

It looks as if 100 commits had each written one level-0 file to each of 100 buckets; all are copies, in name only, of
one real file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from benchmarks.data import OPTIONS, SCHEMA, rows
from paimon_spark import PaimonTable
from paimon_spark.metadata.data_file import DataFile, Statistics
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.rows.binary_row import serialize

BUCKETS = 100
COMMITS = 100
FILES = BUCKETS * COMMITS


def build(path: str) -> None:
    """Make the table at ``path``."""
    table = PaimonTable.create(path, SCHEMA, ["k"], options={**OPTIONS, "bucket": str(BUCKETS)})
    table.append(rows(0, 1000, 1000))
    schema, metadata, snapshot = table.table_schema, table.metadata, table.snapshot()
    assert snapshot is not None
    original = live_files(metadata, snapshot)[0]
    manifests = []
    for bounds in _key_bounds(schema.field("k").type):
        entries = [_copy(original, bucket, *bounds[bucket]) for bucket in range(BUCKETS)]
        manifests += metadata.manifests.write(entries, schema)
    assert len(manifests) == COMMITS
    base, base_size = metadata.manifests.write_list(manifests, schema)
    delta, delta_size = metadata.manifests.write_list([], schema)
    published = metadata.snapshots.publish(
        replace(
            snapshot,
            id=snapshot.id + 1,
            base_manifest_list=base,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta,
            delta_manifest_list_size=delta_size,
            total_record_count=FILES * original.file.row_count,
        )
    )
    assert published
    metadata.snapshots.write_latest_hint(snapshot.id + 1)


def _key_bounds(key_type: object) -> Iterator[list[tuple[bytes, bytes]]]:
    """For each commit, for each bucket, a smallest and a greatest key."""
    random = np.random.default_rng(1)
    for _ in range(COMMITS):
        low = random.integers(0, 1000, BUCKETS)
        high = low + random.integers(100_000, 1_000_000, BUCKETS)
        yield list(zip(serialize([pa.array(low)], [key_type]), serialize([pa.array(high)], [key_type]), strict=True))


_made = iter(range(FILES))


def _copy(entry: ManifestEntry, bucket: int, low: bytes, high: bytes) -> ManifestEntry:
    file: DataFile = entry.file
    return replace(
        entry,
        bucket=bucket,
        file=file._replace(
            name=f"data-00000000-0000-0000-0000-{next(_made):012d}-0.parquet",
            min_key=low,
            max_key=high,
            key_stats=Statistics(low, high, (0,)),
        ),
    )
