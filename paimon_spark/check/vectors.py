"""Deletion vectors of a state: each names a live file of its bucket, reads, and deletes rows that the file has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from paimon_spark.check.breach import Breach, Kind
from paimon_spark.check.places import Places
from paimon_spark.check.state import State
from paimon_spark.errors import CorruptFile, NotFound
from paimon_spark.metadata.deletion_vector import DeletionVector, read_deletion_vector
from paimon_spark.metadata.index_manifest import DELETION_VECTORS, IndexEntry
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.vector_range import DeletionVectorRef

BucketVectors = Mapping[str, DeletionVector]
"""The vectors of a bucket's files, by file name."""


class VectorCheck:
    """Checks the deletion vectors of one state; then :meth:`of_bucket` has those that are sound."""

    def __init__(self, places: Places, state: State) -> None:
        self._places = places
        self._state = state
        self._sound: dict[tuple[bytes, int], dict[str, DeletionVector]] = {}
        self._broken: set[tuple[bytes, int]] = set()

    def of_bucket(self, partition: bytes, bucket: int) -> BucketVectors | None:
        """The vectors of a bucket; None when some of them are not sound."""
        return None if (partition, bucket) in self._broken else self._sound.get((partition, bucket), {})

    def breaches(self) -> Iterator[Breach]:
        """What is wrong with the vectors."""
        files = {key: {e.file.name: e for e in entries} for key, entries in self._state.buckets.items()}
        owners: dict[tuple[bytes, int], str] = {}
        for entry in self._state.indexes:
            if entry.index_type != DELETION_VECTORS:
                continue
            key = (entry.partition, entry.bucket)
            owner = owners.setdefault(key, entry.name)
            if owner != entry.name:
                self._broken.add(key)
                detail = f"bucket {entry.bucket} has a second file of deletion vectors, {entry.name}"
                yield Breach(Kind.VECTOR, f"index/{owner}", detail)
                continue
            found = list(self._of_index_file(entry, files.get(key, {})))
            if found:
                self._broken.add(key)
            yield from found

    def _of_index_file(self, entry: IndexEntry, files: Mapping[str, ManifestEntry]) -> Iterator[Breach]:
        try:
            path = self._places.metadata.indexes.index_path(entry, self._places.schema)
        except CorruptFile:
            return  # named where presence is checked
        where = self._places.name(path)
        ranges = entry.ranges or ()
        if entry.row_count != len(ranges):
            yield Breach(Kind.COUNT, where, f"it has {len(ranges)} vectors, its entry says {entry.row_count}")
        sound = self._sound.setdefault((entry.partition, entry.bucket), {})
        seen: set[str] = set()
        for range_ in ranges:
            if range_.file in seen:
                yield Breach(Kind.VECTOR, where, f"data file {range_.file} has two vectors")
                continue
            seen.add(range_.file)
            if range_.file not in files:
                detail = f"it has a vector for {range_.file}, which is no live file of bucket {entry.bucket}"
                yield Breach(Kind.VECTOR, where, detail)
                continue
            ref = DeletionVectorRef(range_.file, path, range_.offset, range_.length, range_.cardinality)
            try:
                rows = files[range_.file].file.row_count
                sound[range_.file] = read_deletion_vector(self._places.metadata.storage, ref, rows)
            except (CorruptFile, NotFound) as problem:
                yield self._places.breach(problem, path)


def identity(entries: Sequence[ManifestEntry], vectors: BucketVectors) -> bytes:
    """A digest that is equal for equal files with equal vectors."""
    digest = hashlib.sha256(repr(sorted(e.file.name for e in entries)).encode())
    for name in sorted(vectors):
        digest.update(name.encode())
        digest.update(vectors[name].bitmap.serialize())
    return digest.digest()
