"""BucketState: one bucket at a snapshot, as a compaction finds it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paimon_spark.metadata.index_manifest import deletion_vector_files
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.metadata.vector_range import DeletionVectorRef

Bucket = tuple[bytes, int]
"""A partition as a serialized BinaryRow, and a bucket of it."""


@dataclass(frozen=True)
class BucketState:
    """The live files of a bucket and where their deletion vectors are. Travels between processes.

    ``vectors_file`` is the name of the bucket's index file; None when there is none.
    """

    partition: bytes
    bucket: int
    entries: tuple[ManifestEntry, ...]
    vectors: Mapping[str, DeletionVectorRef] = field(default_factory=dict)
    vectors_file: str | None = None


def bucket_states(
    metadata: TableMetadata, snapshot: Snapshot, wanted: Callable[[bytes, int], bool]
) -> dict[Bucket, BucketState]:
    """The buckets of a snapshot that are ``wanted`` and have files.

    Buckets below zero hold rows that no compaction has yet assigned to a real bucket; they are left out.

    :raises NotFound: the snapshot expired meanwhile
    :raises CorruptFile: a manifest is damaged
    """
    entries: dict[Bucket, list[ManifestEntry]] = defaultdict(list)
    for entry in live_files(metadata, snapshot, keep_entry=lambda p, b, _: b >= 0 and wanted(p, b)):
        entries[entry.partition, entry.bucket].append(entry)
    refs = metadata.indexes.deletion_vectors(snapshot)
    names = deletion_vector_files(metadata.indexes.of_snapshot(snapshot).entries)
    return {
        key: BucketState(*key, tuple(members), refs.get(key, {}), names.get(key)) for key, members in entries.items()
    }
