"""Tables of 10,000 files in 100 manifests; all files are copies of one real file.

:func:`build`: no data, only metadata is ever read. It looks as if 100 commits had each written one level-0 file to each
of 100 buckets.

:func:`build_compacted`: every file is there, as a hard link, and can be read. It looks as if 100 buckets had been
compacted into 100 files each; bounds of keys are apart from each other, although the keys in the files are the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

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
    """Make the table without data at ``path``."""
    table, original = _begun(path, {**OPTIONS, "bucket": str(BUCKETS)})
    bounds = _key_bounds(table.table_schema.field("k").type)
    _publish(table, ([_copy(original, bucket, *one[bucket]) for bucket in range(BUCKETS)] for one in bounds))


def build_compacted(path: str) -> None:
    """Make the table with data at ``path``."""
    table, original = _begun(path, {"bucket": str(BUCKETS)})
    original = replace(original, file=original.file._replace(level=5))
    (real,) = Path(path).rglob(original.file.name)
    commits: list[list[ManifestEntry]] = []
    for low, high in _apart(table.table_schema.field("k").type):
        commits.append([_copy(original, bucket, low, high) for bucket in range(BUCKETS)])
        for entry in commits[-1]:
            directory = Path(path) / f"bucket-{entry.bucket}"
            directory.mkdir(exist_ok=True)
            os.link(real, directory / entry.file.name)
    _publish(table, commits)


def _begun(path: str, options: Mapping[str, str]) -> tuple[PaimonTable, ManifestEntry]:
    """A new table, and the entry of one file in it."""
    table = PaimonTable.create(path, SCHEMA, ["k"], options=dict(options))
    table.append(rows(0, 1000, 1000))
    snapshot = table.snapshot()
    assert snapshot is not None
    return table, live_files(table.metadata, snapshot)[0]


def _publish(table: PaimonTable, commits: Iterable[list[ManifestEntry]]) -> None:
    """A snapshot of these files, with a manifest for each commit."""
    schema, metadata, snapshot = table.table_schema, table.metadata, table.snapshot()
    assert snapshot is not None
    manifests, records = [], 0
    for entries in commits:
        manifests += metadata.manifests.write(entries, schema)
        records += sum(entry.file.row_count for entry in entries)
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
            total_record_count=records,
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


def _apart(key_type: object) -> list[tuple[bytes, bytes]]:
    """For each commit, a smallest and a greatest key, of which no others are between."""
    low = np.arange(COMMITS) * 1000
    return list(zip(serialize([pa.array(low)], [key_type]), serialize([pa.array(low + 999)], [key_type]), strict=True))


_made = count()


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
