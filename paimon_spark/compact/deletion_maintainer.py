"""DeletionVectorMaintainer: the deletion vectors of one bucket while it is compacted.

A bucket has one index file with the vectors of all its files. It is never changed: whatever a compaction marks or
drops, it writes a new index file with all vectors that are left, which takes the old one's place in the same snapshot
that brings the new data files. Even when none is left, for the old file must go.

Source: ``BucketedDvMaintainer`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyroaring import BitMap

from paimon_spark.compact.compact_options import BITMAP_64
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.deletion_vector import MAGIC_64, DeletionVector, read_deletion_vector
from paimon_spark.metadata.index_manifest import IndexEntry
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.metadata.vector_range import DeletionVectorRef


class DeletionVectorMaintainer:
    """What is deleted in each file of a bucket; starts from a snapshot's vectors, which are read when first needed."""

    def __init__(
        self, metadata: TableMetadata, files: Iterable[DataFile], refs: Mapping[str, DeletionVectorRef]
    ) -> None:
        """``files`` are the live files of the bucket, and ``refs`` its vectors by file name; vectors of other files
        are forgotten."""
        self._metadata = metadata
        self._row_counts = {file.name: file.row_count for file in files}
        self._refs = {name: ref for name, ref in refs.items() if name in self._row_counts}
        self._form = next(iter(self._refs.values()), None)
        self._loaded: dict[str, DeletionVector] = {}
        self._marked: dict[str, DeletionVector] = {}
        self._removed = False

    @property
    def modified(self) -> bool:
        """Whether the vectors differ from those of the snapshot."""
        return self._removed or bool(self._marked)

    def has(self, name: str) -> bool:
        """Whether the file has a vector."""
        return name in self._marked or name in self._refs

    def vector(self, name: str) -> DeletionVector | None:
        """The rows of the file that are deleted by now; None when it has no vector.

        :raises CorruptFile: the vector does not fit its checksum or its file
        """
        if name in self._marked:
            return self._marked[name]
        if name in self._refs and name not in self._loaded:
            self._loaded[name] = read_deletion_vector(self._metadata.storage, self._refs[name], self._row_counts[name])
        return self._loaded.get(name)

    def mark(self, name: str, positions: BitMap) -> None:
        """Delete rows of a file. Rows that are deleted already are no change."""
        old = self.vector(name)
        new = DeletionVector(positions) if old is None else DeletionVector(old.bitmap | positions)
        if new.cardinality > (0 if old is None else old.cardinality):
            self._marked[name] = new

    def remove(self, name: str) -> None:
        """The file is gone, or new files have what was left of it."""
        self._marked.pop(name, None)
        self._loaded.pop(name, None)
        if self._refs.pop(name, None) is not None:
            self._removed = True

    def write(self, partition: bytes, bucket: int, schema: TableSchema) -> IndexEntry:
        """Write all vectors of the bucket to a new index file; the entry that puts it in the place of the old one.

        The vectors have the form that those of the snapshot had, else that of ``deletion-vectors.bitmap64``: readers
        of one bucket cannot deal with both.
        """
        vectors = {}
        for name in dict.fromkeys((*self._refs, *self._marked)):
            vector = self.vector(name)
            if vector is not None:
                vectors[name] = vector
        return self._metadata.indexes.write_vectors(partition, bucket, vectors, schema, self._is_wide(schema))

    def _is_wide(self, schema: TableSchema) -> bool:
        if self._form is None:
            return schema.options.get_option(BITMAP_64)
        with self._metadata.storage.open(self._form.index_path) as file:
            return bool(file.read_at(len(MAGIC_64), self._form.offset + 4) == MAGIC_64)
